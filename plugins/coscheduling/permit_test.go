package coscheduling

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestADecisionReachesAMemberThatIsAboutToWait: Permit has returned, and the framework does not know yet that it waits.
func TestADecisionReachesAMemberThatIsAboutToWait(t *testing.T) {
	decisions := map[string]struct {
		decide func(*lab, gang)
		want   heldPod
	}{
		"the gang is whole":         {decide: func(l *lab, g gang) { l.allowWaiting(g, 0) }, want: heldPod{allowed: true}},
		"another member gave up":    {decide: func(l *lab, g gang) { l.rejectWaiting(g, reasonLost) }, want: heldPod{refused: reasonLost}},
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
				name := mustGroup(pod)
				tc.decide(l, gangOf(pod, l.groups.GetGroup(name)))
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

// TestAGangThatShrinksGoesOn: when the PodGroup asks for fewer members and those that wait in Permit are enough by that, they go on at once, also if there
// is no other member left that waits in the queue. Else they hold their cards for nothing until their time is over, up to 15 minutes.
func TestAGangThatShrinksGoesOn(t *testing.T) {
	for _, thirdIsThere := range []bool{true, false} {
		l := newLab(t, 3)
		l.group("g", map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(900)})
		pods := []*corev1.Pod{l.member("a"), l.member("b")}
		third := l.member("c")
		for _, pod := range pods {
			if reason, waits := l.try(pod); !waits {
				t.Fatalf("%s does not wait: %s", pod.Name, reason)
			}
		}
		if !thirdIsThere {
			l.must(l.pods.Delete(third))
			l.podGone(third)
		}
		name := types.NamespacedName{Namespace: "ns", Name: "g"}
		before := l.groups.GetGroup(name)
		l.group("g", map[string]any{"minMember": int64(2), "scheduleTimeoutSeconds": int64(900)})
		l.groupChanged(before, l.groups.GetGroup(name))
		time.Sleep(50 * time.Millisecond)
		for _, held := range l.held {
			l.mu.Lock()
			allowed := held.allowed
			l.mu.Unlock()
			if !allowed {
				t.Errorf("a third member waits in the queue: %v: %s waits still, though the gang is whole", thirdIsThere, held.pod.Name)
			}
		}
	}
}
