package broken

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// sighting is what a node says of a broken card.
type sighting struct {
	node, uuid, health string
	since              time.Time
}

type sightings map[sighting]time.Time

// ages corrects since when cards are broken, where that cannot be: nothing is said of it, or a time to come, by a clock of a node that is ahead
// of ours. Such a card counts from when we saw it first. Otherwise its pods would run on with it until our clock comes to that time.
type ages struct {
	now    time.Time
	before sightings
	seen   sightings
}

// agesOf begins a look at a pool. Of the one before it what is seen again is kept, and no more.
func (r *Reconciler) agesOf(pool string) *ages {
	a := &ages{now: r.Clock.Now(), seen: sightings{}}
	if before, ok := r.seen.Swap(pool, a.seen); ok {
		a.before = before.(sightings)
	}
	return a
}

// of returns some broken cards of a node, each with the time from which it counts.
func (a *ages) of(node string, cards []gpu.Card) []gpu.Card {
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

// poolOf is what some nodes, those of a pool, say of their cards, whether they are ready or not.
func poolOf(nodes []*corev1.Node, ages *ages) Pool {
	pool := Pool{Nodes: len(nodes), Struck: map[string]time.Time{}}
	for _, node := range nodes {
		if at := struck(ages.of(node.Name, gpu.BrokenOn(node))); !at.IsZero() {
			pool.Struck[node.Name] = at
		}
	}
	return pool
}
