package gang

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestAGangIsNotTriedInParts: while its members come one after the other, and its PodGroup after the first of them, none is tried and
// told that the others are missing. When all have come, each is tried: where there is no room each says so, as an autoscaler counts
// those that do.
func TestAGangIsNotTriedInParts(t *testing.T) {
	for name, tc := range map[string]struct {
		members int
		room    bool
	}{"with room": {nodeCount, true}, "without": {20, false}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.member("g", "g-0")
			e.group("g", tc.members)
			for i := 1; i < tc.members; i++ {
				e.member("g", fmt.Sprint("g-", i))
			}
			for i := range tc.members {
				if pod := fmt.Sprint("g-", i); tc.room {
					e.waitBound(pod)
				} else {
					e.waitTold(pod, "0/")
				}
			}
			events, err := cluster.Client.EventsV1().Events(e.Namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events.Items {
				_, few := reason.GangTooFew.ParseValues(event.Note)
				if _, unknown := reason.GangUnknown.Text.ParseValues(event.Note); few || unknown {
					t.Errorf("event of %s: %s", event.Regarding.Name, event.Note)
				}
			}
		})
	}
}
