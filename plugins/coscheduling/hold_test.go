package coscheduling

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestADecisionReachesAMemberThatIsAboutToWait: Permit has returned, and the framework does not know yet that it waits.
func TestADecisionReachesAMemberThatIsAboutToWait(t *testing.T) {
	decisions := map[string]struct {
		decide func(*lab, gang)
		want   heldPod
	}{
		"the gang is whole":         {decide: func(l *lab, g gang) { l.letGo(g, 0) }, want: heldPod{allowed: true}},
		"another member gave up":    {decide: func(l *lab, g gang) { l.giveUp(g, reasonLost) }, want: heldPod{refused: reasonLost}},
		"nothing was decided of it": {decide: func(*lab, gang) {}},
	}
	for name, tc := range decisions {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 2)
				l.group("g", map[string]any{"minMember": int64(2)})
				pod := l.member("a")
				l.member("b")
				status, _ := l.Permit(t.Context(), framework.NewCycleState(), pod, "n0")
				if !status.IsWait() {
					t.Fatalf("Permit: %v, want it to wait", status)
				}
				name, _ := groupOf(pod)
				tc.decide(l, gangOf(pod, l.groups.get(name)))
				held := l.hold(pod)
				time.Sleep(time.Second)
				l.mu.Lock()
				defer l.mu.Unlock()
				if held.allowed != tc.want.allowed || held.refused != tc.want.refused {
					t.Errorf("allowed: %t, refused: %q; want %t, %q", held.allowed, held.refused, tc.want.allowed, tc.want.refused)
				}
			})
		})
	}
}
