package cycle

import (
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestMembersShareThePlan that is decided after the first of them has it in its state.
func TestMembersShareThePlan(t *testing.T) {
	plan, first, second := &GangPlan{}, framework.NewCycleState(), framework.NewCycleState()
	WritePlan(first, plan)
	if got := ReadPlanText(first); got != "" {
		t.Errorf("%q before it is decided", got)
	}
	plan.SetDecision(time.Date(2026, 11, 22, 15, 10, 0, 5e6, time.FixedZone("", 3600)), 60)
	WritePlan(second, plan)
	const want = "2026-11-22T14:10:00.005Z/60"
	if a, b := ReadPlanText(first.Clone()), ReadPlanText(second); a != want || b != want {
		t.Errorf("%q and %q, want %q", a, b, want)
	}
	if got := ReadPlanText(framework.NewCycleState()); got != "" {
		t.Errorf("%q for a pod of no gang", got)
	}
}

func TestMembersOfWhatIsNoPlan(t *testing.T) {
	for text, want := range map[string]int{
		"2026-11-22T14:10:00Z/60": 60, "a/1": 1, "": 0, "a": 0, "a/": 0, "a/0": 0, "a/-1": 0, "a/many": 0, "a/1/2": 0, "a/99999999999999999999": 0,
	} {
		if got := MembersOf(text); got != want {
			t.Errorf("%q: %d members, want %d", text, got, want)
		}
	}
}
