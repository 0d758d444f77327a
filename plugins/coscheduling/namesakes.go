package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// countedEach is how long a count remains valid, per counted pod. Counting takes a thousandth of that, so a label on thousands of pods costs
	// no more than a label on ten.
	countedEach = 100 * time.Microsecond
	// mostCounted is how many PodGroups have a remembered count.
	mostCounted = 1000
)

// namesakes cache how many pods have the label of a PodGroup, whichever owner they have.
type namesakes struct {
	mu sync.Mutex
	of map[types.NamespacedName]headcount
}

type headcount struct {
	pods int
	at   time.Time
}

// count returns how many pods name a PodGroup, from a cached count if that is recent enough. Without a clock, as in a simulation, it always
// counts.
func (n *namesakes) count(group types.NamespacedName, now time.Time, by func(types.NamespacedName) int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.of[group]; ok && now.Sub(known.at) < time.Duration(known.pods)*countedEach && !now.IsZero() {
		return known.pods
	}
	if n.of == nil || len(n.of) >= mostCounted {
		n.of = map[types.NamespacedName]headcount{}
	}
	known := headcount{pods: by(group), at: now}
	n.of[group] = known
	return known.pods
}
