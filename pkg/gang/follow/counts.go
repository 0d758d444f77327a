package follow

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// countCostPerPod is how long a count remains valid, per counted pod. Counting takes a thousandth of that, so a label on thousands of pods costs
	// no more than a label on ten.
	countCostPerPod = 100 * time.Microsecond
	// maxCountedGroups is how many PodGroups have a remembered count.
	maxCountedGroups = 1000
)

// LabelCounts cache how many pods have the label of a PodGroup, whichever owner they have.
type LabelCounts struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]podCount
}

type podCount struct {
	pods int
	at   time.Time
}

// CountPods returns how many pods name a PodGroup, from a cached count if that is recent enough. Without a clock, as in a simulation, it always
// counts.
func (n *LabelCounts) CountPods(group types.NamespacedName, now time.Time, by func(types.NamespacedName) int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.groups[group]; ok && now.Sub(known.at) < time.Duration(known.pods)*countCostPerPod && !now.IsZero() {
		return known.pods
	}
	if n.groups == nil || len(n.groups) >= maxCountedGroups {
		n.groups = map[types.NamespacedName]podCount{}
	}
	known := podCount{pods: by(group), at: now}
	n.groups[group] = known
	return known.pods
}
