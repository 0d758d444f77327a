package coscheduling

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestAMemberWaitsForNoSiblingThatHasSucceeded: it is placed like any other pod.
func TestAMemberWaitsForNoSiblingThatHasSucceeded(t *testing.T) {
	l := newLab(t, 1)
	l.must(l.finished.Members.Add(l.member("done", boundTo("n0"))))
	again := l.member("again")
	if _, status := l.PreFilter(t.Context(), nil, again, nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v", status)
	}
	if status, wait := l.Permit(t.Context(), framework.NewCycleState(), again, "n1"); !status.IsSuccess() || wait != 0 {
		t.Errorf("Permit: %v, %v", status, wait)
	}
}
