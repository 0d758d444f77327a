package attempt

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestAnAttemptIsCountedOnce(t *testing.T) {
	var counter Counter
	first, second := framework.NewCycleState(), framework.NewCycleState()
	if a, again, b := counter.Of(first), counter.Of(first.Clone()), counter.Of(second); a != 1 || again != 1 || b != 2 {
		t.Errorf("numbers %d, %d and %d, want 1, 1 and 2", a, again, b)
	}
	counter.Set(41)
	if n := counter.Of(framework.NewCycleState()); n != 42 {
		t.Errorf("number %d, want 42", n)
	}
	if n := counter.Of(first); n != 1 {
		t.Errorf("number %d, want 1, as before", n)
	}
}

func TestAHorizonOnlyMovesOn(t *testing.T) {
	var horizon Horizon
	for i, step := range []struct{ reach, want string }{
		{"", ""},
		{"0", ""},
		{"none", ""},
		{"99", "99"},
		{"100", "100"},
		{"98", "100"},
		{"", "100"},
	} {
		horizon.Reach(step.reach)
		if got := horizon.Version(); got != step.want {
			t.Errorf("step %d: %q after %q, want %q", i, got, step.reach, step.want)
		}
	}
}
