package broken

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// sighting is a node's report of a broken GPU.
type sighting struct {
	node, uuid, health string
	since              time.Time
}

type sightings map[sighting]time.Time

// breakTimes corrects the time at which a GPU broke if the report has none or one in the future, from a node whose clock is ahead of ours. Such a GPU
// counts from our first sighting. Otherwise its pods would run on with it until our clock reaches that time.
type breakTimes struct {
	now    time.Time
	before sightings
	seen   sightings
}

// newBreakTimes starts a check of a pool. It keeps only the previous sightings that are seen again.
func (r *Reconciler) newBreakTimes(pool string) *breakTimes {
	a := &breakTimes{now: r.Clock.Now(), seen: sightings{}}
	if before, ok := r.seen.Swap(pool, a.seen); ok {
		a.before = before.(sightings)
	}
	return a
}

// withTimes returns broken GPUs of a node, each with the corrected time.
func (a *breakTimes) withTimes(node string, cards []gpu.GPU) []gpu.GPU {
	for i := range cards {
		card := &cards[i]
		if !card.Since.IsZero() && !card.Since.After(a.now) {
			continue
		}
		key := sighting{node: node, uuid: card.UUID, health: card.Health, since: card.Since}
		first, known := a.before[key]
		if !known {
			first = a.now
		}
		a.seen[key], card.Since = first, first
	}
	return cards
}

// buildPool returns the facts about a pool's nodes and their GPUs, whether the nodes are ready or not.
func buildPool(nodes []*corev1.Node, ages *breakTimes) Pool {
	pool := Pool{Nodes: len(nodes), LastBroken: map[string]time.Time{}}
	for _, node := range nodes {
		if at := lastBroken(ages.withTimes(node.Name, gpu.BrokenGPUsOn(node))); !at.IsZero() {
			pool.LastBroken[node.Name] = at
		}
	}
	return pool
}
