package defrag

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/reservation"
)

// TestNobodyIsMovedToAKeptNode, nor is room made there for whom it is kept from.
func TestNobodyIsMovedToAKeptNode(t *testing.T) {
	facts := &Facts{
		Now: now, Nodes: nodesOf8("a", "b", "c"),
		Running: []corev1.Pod{running("a1", "a", 2), running("b1", "b", 7), running("c1", "c", 4)},
		Waiting: []corev1.Pod{waiting("w", 8)},
	}
	keep := func(node string, namespaces ...string) *reservation.Book {
		return reservation.NewBook([]reservation.Window{{Name: node, Nodes: []string{node}, From: now.Add(time.Hour), To: now.Add(2 * time.Hour), Namespaces: namespaces}})
	}
	for name, tc := range map[string]struct {
		book *reservation.Book
		want []string
	}{
		"nothing is kept":          {nil, []string{"w -> a, a1 a -> c"}},
		"where the other would go": {keep("c"), []string{"w: " + whyNowhere.String()}},
		"where it would go":        {keep("a"), []string{"w: " + whyNowhere.String()}},
		"for them":                 {keep("c", "team"), []string{"w -> a, a1 a -> c"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts.Reservations = tc.book
			if diff := cmp.Diff(tc.want, summary(Plan(facts, DefaultLimits))); diff != "" {
				t.Errorf("advice (-want +got):\n%s", diff)
			}
		})
	}
}
