package follow

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// member is a pod of gang g that a Job made.
func member(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{names.LabelPodGroup: "g"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "job", UID: "job", Controller: ptr.To(true)}},
	}}
	for _, change := range change {
		change(pod)
	}
	return pod
}

// TestHasFinishedSibling counts members of the same Job and gang: not those of an earlier Job of the same name, nor those of another gang that the
// same workflow made.
func TestHasFinishedSibling(t *testing.T) {
	kept, err := keepOwners(member(func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Labels["app"] = "n0", "train" }))
	if err != nil {
		t.Fatal(err)
	}
	if pod, ok := kept.(*corev1.Pod); !ok || pod.Spec.NodeName != "" || len(pod.Labels) > 1 {
		t.Errorf("too much is kept of a pod that has finished: %+v", kept)
	}
	finished := FinishedMembers{Members: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byController: controllerKeys})}
	if err := finished.Members.Add(kept); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a sibling has succeeded":                     {member(), true},
		"one of an earlier job of the same name":      {member(func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "later" }), false},
		"no controller made the pod":                  {member(func(pod *corev1.Pod) { pod.OwnerReferences = nil }), false},
		"one of the workflow's step before":           {member(func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "step-2" }), false},
		"the same names in another namespace's words": {member(func(pod *corev1.Pod) { pod.Namespace = "other" }), false},
	} {
		if got := finished.HasFinishedSibling(tc.pod); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
