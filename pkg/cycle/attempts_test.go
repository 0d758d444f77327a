package cycle

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestAnAttemptIsCountedOnce(t *testing.T) {
	var attempts Attempts
	first, second := framework.NewCycleState(), framework.NewCycleState()
	if a, again, b := attempts.AttemptNumber(first), attempts.AttemptNumber(first.Clone()), attempts.AttemptNumber(second); a != 1 || again != 1 || b != 2 {
		t.Errorf("numbers %d, %d and %d, want 1, 1 and 2", a, again, b)
	}
	attempts.SetLast(41)
	if n := attempts.AttemptNumber(framework.NewCycleState()); n != 42 {
		t.Errorf("number %d, want 42", n)
	}
	if n := attempts.AttemptNumber(first); n != 1 {
		t.Errorf("number %d, want 1, as before", n)
	}
}

func TestARevisionOnlyMovesOn(t *testing.T) {
	var revision Revision
	for i, step := range []struct{ reach, want string }{
		{"", ""},
		{"0", ""},
		{"none", ""},
		{"99", "99"},
		{"100", "100"},
		{"98", "100"},
		{"", "100"},
	} {
		revision.AdvanceTo(step.reach)
		if got := revision.Version(); got != step.want {
			t.Errorf("step %d: %q after %q, want %q", i, got, step.reach, step.want)
		}
	}
}
