package coscheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
)

// TestAMemberWaitsForNoSiblingThatHasSucceeded of its own Job and gang: those of an earlier Job of the same name do not
// count, nor those of another gang that the same workflow made.
func TestAMemberWaitsForNoSiblingThatHasSucceeded(t *testing.T) {
	l := newLab(t, 1)
	done := l.member("done", boundTo("n0"))
	kept, err := follow.KeepOwners(done)
	if err != nil {
		t.Fatal(err)
	}
	l.must(l.finished.Members.Add(kept))
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a sibling has succeeded":                     {l.member("again"), true},
		"one of an earlier job of the same name":      {l.member("later", ownedBy("later")), false},
		"nobody made the pod":                         {l.member("bare", func(p *corev1.Pod) { p.OwnerReferences = nil }), false},
		"one of the workflow's step before":           {l.member("step-2", func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = "step-2" }), false},
		"the same names in another namespace's words": {l.member("away", func(p *corev1.Pod) { p.Namespace = "other" }), false},
	} {
		if got := l.finished.HasFinishedSibling(tc.pod); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	again := l.member("again")
	if _, status := l.PreFilter(t.Context(), nil, again, nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v", status)
	}
	if status, wait := l.Permit(t.Context(), framework.NewCycleState(), again, "n1"); !status.IsSuccess() || wait != 0 {
		t.Errorf("Permit: %v, %v", status, wait)
	}
	if pod := kept.(*corev1.Pod); pod.Spec.NodeName != "" || len(pod.Labels) > 1 {
		t.Errorf("too much is kept of a pod that has finished: %+v", pod)
	}
}
