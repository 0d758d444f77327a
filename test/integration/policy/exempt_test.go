package policy

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhoIsNotHeldToIt: what runs the cluster must go on to do so.
func TestWhoIsNotHeldToIt(t *testing.T) {
	governed, exempt := team(t, nil), team(t, map[string]string{names.LabelPolicy: names.PolicyExempt})
	bindEverywhere(t, "cluster-admin", "oscar")      // may do everything, and is not of system:masters
	bindEverywhere(t, "g8s:policy-admin", "pauline") // could exempt the namespace, too
	bindGroupEverywhere(t, "cluster-admin", "kubeadm:cluster-admins")
	kubeadm := rest.ImpersonationConfig{UserName: "kubernetes-admin", Groups: []string{"kubeadm:cluster-admins"}}
	operator := rest.ImpersonationConfig{UserName: "system:serviceaccount:operators:operator"}
	bindEverywhere(t, "cluster-admin", operator.UserName)
	everything := both(privileged, mounts("/"), priority("system-node-critical"), onNode, env("NVIDIA_VISIBLE_DEVICES", "all"),
		tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), func(p *corev1.Pod) { p.Spec.HostPID = true })
	mirror := annotated(corev1.MirrorPodAnnotationKey, "a")
	tests := map[string]struct {
		who       rest.ImpersonationConfig
		namespace string
		change    func(*corev1.Pod)
		want      string
	}{
		"a controller, in a governed namespace":                {jobController, governed, everything, "ValidatingAdmissionPolicy"},
		"a controller, in an exempt one":                       {jobController, exempt, everything, ""},
		"a controller, in kube-system":                         {jobController, metav1.NamespaceSystem, everything, ""},
		"an administrator of the cluster":                      {masters, governed, everything, ""},
		"an administrator as kubeadm names them":               {kubeadm, governed, everything, ""},
		"one who may do everything":                            {user("oscar"), governed, everything, ""},
		"one who may exempt the namespace":                     {user("pauline"), governed, everything, ""},
		"one who may only make pods":                           {user("ana"), governed, everything, "ValidatingAdmissionPolicy"},
		"one who may only make pods, and calls it a mirror":    {user("ana"), governed, both(everything, mirror), "ValidatingAdmissionPolicy"},
		"an operator that may do everything, for its users":    {operator, governed, everything, "ValidatingAdmissionPolicy"},
		"a kubelet, for a static pod":                          {kubelet("train-01"), governed, both(mounts("/"), priority("system-node-critical"), onNode, mirror), ""},
		"a DaemonSet, which tolerates everything":              {daemonSetController, governed, both(tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), ofA("DaemonSet")), ""},
		"an old DaemonSet controller, which names the node":    {daemonSetController, governed, both(onNode, ofA("DaemonSet")), ""},
		"one name for all controllers, a DaemonSet":            {controllerManager, governed, both(onNode, ofA("DaemonSet")), ""},
		"one name for all controllers, a ReplicaSet":           {controllerManager, governed, both(onNode, ofA("ReplicaSet")), "past the scheduler"},
		"one name for all controllers, every taint":            {controllerManager, governed, both(tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), ofA("ReplicaSet")), "tolerates every taint"},
		"a DaemonSet with the node's root":                     {daemonSetController, governed, mounts("/"), "may not mount / of the node"},
		"a DaemonSet that is privileged":                       {daemonSetController, governed, privileged, "privileged containers"},
		"a namespace that says exempt in another way":          {jobController, team(t, map[string]string{names.LabelPolicy: "true"}), privileged, "privileged containers"},
		"the scheduler's own pods":                             {serviceAccount("replicaset-controller"), metav1.NamespaceSystem, priority("system-cluster-critical"), ""},
		"a namespace with the label of those that gpuctl made": {jobController, team(t, map[string]string{names.LabelNamespace: names.True}), mounts("/"), "may not mount /"},
	}
	maker := podMaker(t)
	bindEverywhere(t, maker, "system:node:train-01") // the authorizer of nodes is off here
	for _, name := range []string{"system:kube-controller-manager", "pauline", "ana"} {
		bindEverywhere(t, maker, name)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			test.change(pod)
			checkRefusal(t, makePod(t, test.who, test.namespace, pod), test.want)
		})
	}
}

// ofA says what a pod is of, as its controller does.
func ofA(kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "a", UID: "a", Controller: ptr.To(true)}}
	}
}

// TestADaemonSetNamesNoNode: its controller would make pods there past the scheduler.
func TestADaemonSetNamesNoNode(t *testing.T) {
	namespace := team(t, nil)
	bindEverywhere(t, "cluster-admin", "oscar")
	sets := as(user("oscar")).AppsV1().DaemonSets(namespace)
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, Template: templateOf(plain())},
	}
	set.Spec.Template.Spec.NodeSelector = map[string]string{"nowhere": "true"}
	set, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"nodeName":"train-01"}}}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "past the scheduler")
	set.ObjectMeta = metav1.ObjectMeta{Name: "b"}
	set.Spec.Template.Spec.NodeName = "train-01"
	_, err = sets.Create(t.Context(), set, metav1.CreateOptions{})
	checkRefusal(t, err, "past the scheduler")
}

// podMaker makes a role that may make pods.
func podMaker(t *testing.T) string {
	t.Helper()
	return clusterRole(t, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}})
}

func clusterRole(t *testing.T, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	role, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
	return role.Name
}

// TestOnlyThoseWhoMayExempt has others who may change namespaces try.
func TestOnlyThoseWhoMayExempt(t *testing.T) {
	bindEverywhere(t, "g8s:admin", "grace")          // pools and quotas, and the namespaces of these
	bindEverywhere(t, "g8s:policy-admin", "pauline") // exceptions
	bindEverywhere(t, "cluster-admin", "oscar")
	const refused = "you may not set, change or remove it"
	exempt := map[string]string{names.LabelPolicy: names.PolicyExempt}
	tests := map[string]struct {
		who    string
		labels map[string]string
		patch  string
		want   string
	}{
		"who runs pools, to set it":              {"grace", nil, `"exempt"`, refused},
		"who runs pools, to change it":           {"grace", exempt, `"other"`, refused},
		"who runs pools, to remove it":           {"grace", exempt, `null`, refused},
		"who runs pools, another label":          {"grace", exempt, `"exempt","team":"a"`, ""},
		"who writes exceptions, to set it":       {"pauline", nil, `"exempt"`, ""},
		"who writes exceptions, to remove it":    {"pauline", exempt, `null`, ""},
		"who may do everything":                  {"oscar", nil, `"exempt"`, ""},
		"a user of jobs, who may change nothing": {"ana", nil, `"exempt"`, "cannot patch resource"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			namespace := team(t, test.labels)
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, names.LabelPolicy, test.patch)
			_, err := as(user(test.who)).CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			checkRefusal(t, err, test.want)
		})
	}
	t.Run("at birth", func(t *testing.T) {
		for who, want := range map[string]string{"grace": refused, "oscar": ""} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: exempt}}
			_, err := as(user(who)).CoreV1().Namespaces().Create(t.Context(), namespace, dryRun)
			checkRefusal(t, err, want)
		}
	})
	t.Run("by a name that is exempt", func(t *testing.T) {
		for who, want := range map[string]string{"grace": refused, "oscar": ""} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}
			_, err := as(user(who)).CoreV1().Namespaces().Create(t.Context(), namespace, dryRun)
			checkRefusal(t, err, want)
			namespace.Name = "monitoring-2"
			_, err = as(user(who)).CoreV1().Namespaces().Create(t.Context(), namespace, dryRun)
			checkRefusal(t, err, "")
		}
	})
	t.Run("by the status and the end of the namespace", func(t *testing.T) {
		role := clusterRole(t, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"*"},
		})
		bindEverywhere(t, role, "mallory")
		namespace, err := admin.CoreV1().Namespaces().Get(t.Context(), team(t, nil), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespace.Labels[names.LabelPolicy] = names.PolicyExempt
		_, err = as(user("mallory")).CoreV1().Namespaces().UpdateStatus(t.Context(), namespace, metav1.UpdateOptions{})
		checkRefusal(t, err, refused)
		_, err = as(user("mallory")).CoreV1().Namespaces().Finalize(t.Context(), namespace, metav1.UpdateOptions{})
		checkRefusal(t, err, refused)
	})
}

// TestWhatWasThereBeforeGoesOn: a workload that the policies would refuse can be scaled, paused and deleted, and its
// pods can end, but it cannot be changed into something else that they refuse.
func TestWhatWasThereBeforeGoesOn(t *testing.T) {
	namespace := team(t, map[string]string{names.LabelPolicy: names.PolicyExempt})
	pod := plain()
	both(mounts("/"), withoutGPUs, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })(pod)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: appsv1.DeploymentSpec{
		Template: templateOf(pod), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
	}}
	deployments, pods := admin.AppsV1().Deployments(namespace), as(user("ana")).CoreV1().Pods(namespace)
	if _, err := deployments.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bind(t, namespace, "edit")
	patch := []byte(`{"metadata":{"labels":{"` + names.LabelPolicy + `":null}}}`)
	if _, err := admin.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be governed", func(context.Context) bool {
		return makePod(t, jobController, namespace, pod.DeepCopy()) != nil
	})
	ana := as(user("ana")).AppsV1().Deployments(namespace)
	_, err = ana.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "")
	_, err = ana.Patch(t.Context(), "old", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"hostPID":true}}}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "ValidatingAdmissionPolicy")
	_, err = pods.Patch(t.Context(), made.Name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`), metav1.PatchOptions{})
	checkRefusal(t, err, "ValidatingAdmissionPolicy")
	_, err = pods.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "")
	checkRefusal(t, ana.Delete(t.Context(), "old", metav1.DeleteOptions{}), "")
}

// TestDebugContainersAreHeldToIt: they are added to pods that are there.
func TestDebugContainersAreHeldToIt(t *testing.T) {
	namespace := team(t, nil)
	bind(t, namespace, "edit")
	bindEverywhere(t, clusterRole(t, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"update", "patch"},
	}), "ana")
	pods := as(user("ana")).CoreV1().Pods(namespace)
	made, err := pods.Create(t.Context(), plain(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	debug := func(change func(*corev1.EphemeralContainer)) error {
		pod := made.DeepCopy()
		pod.ResourceVersion = ""
		container := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}
		change(&container)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, container)
		_, err := pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	checkRefusal(t, debug(func(*corev1.EphemeralContainer) {}), "")
	checkRefusal(t, debug(func(c *corev1.EphemeralContainer) {
		c.Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
	}), "the scheduler chooses the cards")
	checkRefusal(t, debug(func(c *corev1.EphemeralContainer) {
		yes := true
		c.SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	}), "privileged containers")
}
