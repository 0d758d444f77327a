package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// asScheduler returns a client with the scheduler's identity.
func asScheduler(t *testing.T) kubernetes.Interface {
	t.Helper()
	path, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, names.SchedulerName)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return clientOf(t, config)
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// setLease makes the lease as it is while holder leads, and waits until the API server's policies know.
func setLease(t *testing.T, holder string, transitions int32) {
	t.Helper()
	removeLease(t)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: names.SchedulerName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}
	if _, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitFence(t, fmt.Sprintf("the epoch is %s/%d:", holder, transitions))
}

func removeLease(t *testing.T) {
	t.Helper()
	leases := client.CoordinationV1().Leases(metav1.NamespaceSystem)
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + names.SchedulerName}
	if err := leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, only); err != nil {
		t.Fatal(err)
	}
	awaitFence(t, noLease)
}

// awaitFence binds a pod in dry run until the answer is as wanted.
func awaitFence(t *testing.T, want string) {
	t.Helper()
	scheduler, pod := asScheduler(t), waitingPod(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		err := bind(t, scheduler, pod, map[string]string{names.AnnotationEpoch: "nobody/0"}, metav1.DryRunAll)
		if err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the fence says %v, want %q", err, want)
		}
	}
}

// noLease is what the API server says of a policy whose parameter does not exist.
const noLease = "no params found"

// waitingPod creates a pod that no scheduler places.
func waitingPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := fixture.Pod("").GPUs(1).Obj()
	pod.GenerateName, pod.Spec.SchedulerName = "pod-", "none"
	pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, now := context.WithoutCancel(t.Context()), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return pod
}

// bind binds a pod to a node with annotations on the Binding.
func bind(t *testing.T, as kubernetes.Interface, pod *corev1.Pod, annotations map[string]string, dryRun ...string) error {
	t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
	}
	return as.CoreV1().Pods(pod.Namespace).Bind(t.Context(), binding, metav1.CreateOptions{DryRun: dryRun})
}

// checkError compares an error with what it must say, "" for no error.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("got error %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

// TestThePoliciesAreOn holds what is bound in this cluster against what we ship: the tests of this package prove nothing
// about clusters that have the policies, if this one has not.
func TestThePoliciesAreOn(t *testing.T) {
	needsPolicies(t)
	shipped := shippedPolicies(t)
	bindings, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, binding := range bindings.Items {
		if slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
			bound = append(bound, binding.Name)
		}
	}
	slices.Sort(shipped)
	slices.Sort(bound)
	if diff := cmp.Diff(slices.Compact(shipped), bound); diff != "" || len(bound) < 2 {
		t.Errorf("policies that deny (-shipped +bound):\n%s", diff)
	}
}

// shippedPolicies are the names of the bindings in manifests/policy.
func shippedPolicies(t *testing.T) []string {
	t.Helper()
	read := func(path string) []byte {
		file, err := manifests.FS.ReadFile("policy/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	var list struct{ Resources []string }
	if err := yaml.Unmarshal(read("kustomization.yaml"), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range list.Resources {
		for document := range strings.SplitSeq(string(read(path)), "\n---\n") {
			var object struct {
				Kind     string
				Metadata metav1.ObjectMeta
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			if object.Kind == "ValidatingAdmissionPolicyBinding" {
				names = append(names, object.Metadata.Name)
			}
		}
	}
	return names
}

func TestTheFenceLetsOnlyTheLeaderBind(t *testing.T) {
	needsPolicies(t)
	scheduler := asScheduler(t)
	removeLease(t)
	t.Run("nobody leads", func(t *testing.T) {
		checkError(t, bind(t, scheduler, waitingPod(t), map[string]string{names.AnnotationEpoch: "a/0"}), noLease)
	})
	setLease(t, "b", 10)
	defer removeLease(t)
	tests := map[string]struct {
		as    kubernetes.Interface
		epoch string
		want  string
	}{
		"the leader":                              {as: scheduler, epoch: "b/10"},
		"the leader before it":                    {as: scheduler, epoch: "a/9", want: "the binding is of epoch a/9 and the epoch is b/10: another scheduler leads"},
		"the same process, an earlier time":       {as: scheduler, epoch: "b/8", want: "another scheduler leads"},
		"another process that says the same":      {as: scheduler, epoch: "c/10", want: "another scheduler leads"},
		"a scheduler without leader election":     {as: scheduler, want: "a scheduler without leader election"},
		"another identity that does not elect":    {as: client},
		"the time alone is not who leads":         {as: scheduler, epoch: "10", want: "another scheduler leads"},
		"nor is the holder alone, who may return": {as: scheduler, epoch: "b", want: "another scheduler leads"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if tc.epoch != "" {
				annotations[names.AnnotationEpoch] = tc.epoch
			}
			checkError(t, bind(t, tc.as, waitingPod(t), annotations), tc.want)
		})
	}
	t.Run("the leader has released the lease", func(t *testing.T) {
		setLease(t, "", 10)
		checkError(t, bind(t, scheduler, waitingPod(t), map[string]string{names.AnnotationEpoch: "b/10"}), "another scheduler leads")
	})
}

const (
	cards      = `{"version":1,"containers":{"main":[{"uuid":"index-0","index":0}]}}`
	otherCards = `{"version":1,"containers":{"main":[{"uuid":"index-1","index":1}]}}`
	notYours   = "only the scheduler may set, change or remove the annotations"
)

func TestOnlyTheSchedulerSaysWhichCardsAPodHas(t *testing.T) {
	needsPolicies(t)
	setLease(t, "b", 10)
	defer removeLease(t)
	scheduler := asScheduler(t)
	placed := func(t *testing.T) *corev1.Pod {
		pod := waitingPod(t)
		checkError(t, bind(t, scheduler, pod, map[string]string{names.AnnotationEpoch: "b/10", names.AnnotationGPUDevices: cards}), "")
		return pod
	}
	patchAs := func(t *testing.T, as kubernetes.Interface, pod *corev1.Pod, body string, subresources ...string) error {
		_, err := as.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		return err
	}
	patch := func(t *testing.T, pod *corev1.Pod, body string, subresources ...string) error {
		return patchAs(t, user, pod, body, subresources...)
	}
	administrator := func(t *testing.T, name string) kubernetes.Interface {
		as, err := userWith(t.Context(), name, "cluster-admin")
		if err != nil {
			t.Fatal(err)
		}
		return as
	}
	annotation := func(key, value string) string { return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}` }
	tests := map[string]struct {
		try  func(*testing.T) error
		want string
	}{
		"a user creates a pod with cards": {want: notYours, try: func(t *testing.T) error {
			pod := fixture.Pod("forged").GPUs(1).Annotate(names.AnnotationGPUDevices, cards).Obj()
			_, err := user.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
			return err
		}},
		"a user gives a waiting pod cards": {want: notYours, try: func(t *testing.T) error {
			return patch(t, waitingPod(t), annotation(names.AnnotationGPUDevices, `"x"`))
		}},
		"a user gives a waiting pod cards with its status": {want: notYours, try: func(t *testing.T) error {
			return patch(t, waitingPod(t), annotation(names.AnnotationGPUDevices, `"x"`), "status")
		}},
		"a user gives a waiting pod an epoch": {want: notYours, try: func(t *testing.T) error {
			return patch(t, waitingPod(t), annotation(names.AnnotationEpoch, `"b/10"`))
		}},
		"a user changes a pod's cards": {want: notYours, try: func(t *testing.T) error {
			return patch(t, placed(t), annotation(names.AnnotationGPUDevices, `"x"`))
		}},
		"a user takes a pod's cards": {want: notYours, try: func(t *testing.T) error {
			return patch(t, placed(t), annotation(names.AnnotationGPUDevices, "null"))
		}},
		"a user binds a pod with cards": {want: notYours, try: func(t *testing.T) error {
			return bind(t, user, waitingPod(t), map[string]string{names.AnnotationGPUDevices: otherCards})
		}},
		"a user binds a pod without": {try: func(t *testing.T) error { return bind(t, user, waitingPod(t), nil) }},
		"an administrator, who could remove the policy, mends a pod": {try: func(t *testing.T) error {
			return patchAs(t, administrator(t, "oscar"), placed(t), annotation(names.AnnotationGPUDevices, "null"))
		}},
		"a ServiceAccount of an administrator's rights restores a pod": {want: notYours, try: func(t *testing.T) error {
			return patchAs(t, administrator(t, "system:serviceaccount:backup:backup"), waitingPod(t), annotation(names.AnnotationGPUDevices, `"x"`))
		}},
		"a user annotates a pod that has cards": {try: func(t *testing.T) error {
			return patch(t, placed(t), annotation("note", `"mine"`))
		}},
		"a kubelet reports the status of a pod that has cards": {try: func(t *testing.T) error {
			return patch(t, placed(t), `{"status":{"phase":"Running"}}`, "status")
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { checkError(t, tc.try(t), tc.want) })
	}
	t.Run("what the scheduler says is on the pod", func(t *testing.T) {
		pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), placed(t).Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := pod.Annotations[names.AnnotationGPUDevices]; got != cards || pod.Spec.NodeName != "node" {
			t.Errorf("got cards %s on node %q, want %s", got, pod.Spec.NodeName, cards)
		}
	})
}
