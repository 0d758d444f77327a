package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// countedEach is how long a number of pods holds for each of them: counting takes a thousandth of that, so that who puts one label on
	// thousands of pods costs no more than who puts it on ten.
	countedEach = 100 * time.Microsecond
	// mostCounted is of how many PodGroups the number is remembered.
	mostCounted = 1000
)

// namesakes remember how many pods have the label of a PodGroup, whoever owns them.
type namesakes struct {
	mu sync.Mutex
	of map[types.NamespacedName]headcount
}

type headcount struct {
	pods int
	at   time.Time
}

// count returns how many pods name a PodGroup, by a count that is not older than counting them is worth. Without a clock, as in a
// simulation, it counts.
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
