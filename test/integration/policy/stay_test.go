package policy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// deleting is a deletion that is tried only, with a grace period in seconds, -1 for one that names none.
func deleting(seconds int64) metav1.DeleteOptions {
	options := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if seconds >= 0 {
		options.GracePeriodSeconds = ptr.To(seconds)
	}
	return options
}

// stays makes a pod of a namespace that has so many seconds to end.
func stays(t *testing.T, namespace string, seconds int64, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := plain()
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(seconds)
	onNode(pod) // one without a node is gone at once, whatever a deletion says
	for _, change := range change {
		change(pod)
	}
	made, err := as(masters).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestNobodyStaysByBeingDeleted: a deletion gives a pod no more time than it said it needs. Who runs the cluster is never stopped.
func TestNobodyStaysByBeingDeleted(t *testing.T) {
	namespace := team(t, nil)
	bind(t, namespace, "edit")
	own := rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":default",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	bindEverywhere(t, "edit", own.UserName)
	bindEverywhere(t, "edit", serviceAccount("autoscaler").UserName)
	bindEverywhere(t, "edit", "operator")
	bindEverywhere(t, "g8s:admin", "operator")
	bindEverywhere(t, "system:node", kubelet("train-01").UserName) // the authorizer of nodes is off here

	short, long := stays(t, namespace, 30), stays(t, namespace, 3600)
	waits := stays(t, namespace, 30, func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Spec.NodeSelector = "", map[string]string{"nowhere": "yes"}
	})
	foreign := stays(t, namespace, 30, scheduledBy("default-scheduler"), withoutGPUs)
	const refused = "leave the grace period out"
	eventually(t, "the policy", func(ctx context.Context) bool {
		return as(user("ana")).CoreV1().Pods(namespace).Delete(ctx, short.Name, deleting(3600)) != nil
	})
	for name, tc := range map[string]struct {
		who     rest.ImpersonationConfig
		pod     *corev1.Pod
		seconds int64
		want    string
	}{
		"its owner, for an hour":                        {user("ana"), short, 3600, "the pod would have 3600 s to end, longer than the 30 s"},
		"its owner, for a second more":                  {user("ana"), short, 31, refused},
		"of a pod without a node":                       {user("ana"), waits, 3600, ""},
		"its owner, for as long as it said":             {user("ana"), short, 30, ""},
		"its owner, for less":                           {user("ana"), short, 1, ""},
		"its owner, by force":                           {user("ana"), short, 0, ""},
		"its owner, as it is":                           {user("ana"), short, -1, ""},
		"one that said an hour":                         {user("ana"), long, 3600, ""},
		"one that said an hour, for longer":             {user("ana"), long, 3601, refused},
		"a pod of another scheduler":                    {user("ana"), foreign, 3600, ""},
		"a ServiceAccount of the namespace":             {own, short, 3600, refused},
		"a ServiceAccount that runs the cluster":        {serviceAccount("autoscaler"), short, 3600, refused},
		"the same, for as long as it said":              {serviceAccount("autoscaler"), long, 3600, ""},
		"who may patch nodes":                           {user("operator"), short, 3600, ""},
		"an administrator":                              {masters, short, 3600, ""},
		"a kubelet, of a pod that has ended":            {kubelet("train-01"), short, 0, ""},
		"the controller of garbage":                     {serviceAccount("generic-garbage-collector"), short, -1, ""},
		"the controller of pods whose node is gone":     {serviceAccount("pod-garbage-collector"), short, 0, ""},
		"the controller of namespaces":                  {serviceAccount("namespace-controller"), short, -1, ""},
		"the controller of nodes, for a pod on a taint": {serviceAccount("node-controller"), short, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, as(tc.who).CoreV1().Pods(namespace).Delete(t.Context(), tc.pod.Name, deleting(tc.seconds)), tc.want)
		})
	}
	t.Run("all at once", func(t *testing.T) {
		pods := as(user("ana")).CoreV1().Pods(namespace)
		checkRefusal(t, pods.DeleteCollection(t.Context(), deleting(3600), metav1.ListOptions{}), refused)
		checkRefusal(t, pods.DeleteCollection(t.Context(), deleting(-1), metav1.ListOptions{}), "")
	})
	for name, tc := range map[string]struct {
		who     rest.ImpersonationConfig
		seconds int64
		want    string
	}{
		"evicted by its owner, for an hour":                    {user("ana"), 3600, refused},
		"evicted by its owner":                                 {user("ana"), -1, ""},
		"evicted by a ServiceAccount of the namespace":         {own, 3600, refused},
		"evicted by what runs the cluster, as long as it said": {serviceAccount("autoscaler"), 3600, ""},
		"evicted by who drains a node":                         {user("operator"), 3600, ""},
		"evicted by an administrator":                          {masters, 3600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := deleting(tc.seconds)
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: long.Name}, DeleteOptions: &options}
			checkRefusal(t, as(tc.who).PolicyV1().Evictions(namespace).Evict(t.Context(), eviction), tc.want)
		})
	}
}

// TestWhatRunsTheClusterDeletesPods: those of a namespace that is deleted, and those whose owner is gone.
func TestWhatRunsTheClusterDeletesPods(t *testing.T) {
	namespace := team(t, nil)
	owner, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	orphan := stays(t, namespace, 30, func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	})
	stays(t, namespace, 30)
	if err := admin.CoreV1().ConfigMaps(namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod without an owner to be gone", func(ctx context.Context) bool {
		_, err := admin.CoreV1().Pods(namespace).Get(ctx, orphan.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", func(ctx context.Context) bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
