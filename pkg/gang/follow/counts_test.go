package follow

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestStrangersAreCounted once for many that ask, and anew when they are few.
func TestStrangersAreCounted(t *testing.T) {
	var n LabelCounts
	counted, there := 0, 10_000
	by := func(types.NamespacedName) int { counted++; return there }
	group, now := types.NamespacedName{Namespace: "ns", Name: "g"}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 1000 {
		if got := n.CountPods(group, now, by); got != 10_000 {
			t.Fatalf("%d pods, want 10,000", got)
		}
	}
	if counted != 1 {
		t.Errorf("they are counted %d times at one moment", counted)
	}
	there = 3
	now = now.Add(10_000 * countCostPerPod)
	if got := n.CountPods(group, now, by); got != 3 {
		t.Errorf("%d pods a while later, want 3", got)
	}
	there = 4
	if got := n.CountPods(group, now.Add(3*countCostPerPod), by); got != 4 {
		t.Errorf("%d pods, want 4 when another has come", got)
	}
	for i := range 3 * maxCountedGroups {
		n.CountPods(types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}, now, by)
	}
	if len(n.groups) > maxCountedGroups {
		t.Errorf("%d PodGroups are remembered", len(n.groups))
	}
}
