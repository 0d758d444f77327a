package fragmentation

import (
	"maps"
	"slices"
)

// Offer is what a node has when nothing runs on it. That of a node without healthy cards is zero.
type Offer struct {
	Pool  string
	Shape Shape
	// Cards counts also those that are not healthy, and Sizes are the memory that there is of cards, in MiB.
	Cards int64
	Sizes []int64
}

// Equal reports whether two offers are the same.
func (o *Offer) Equal(other *Offer) bool {
	return o.Pool == other.Pool && o.Shape == other.Shape && o.Cards == other.Cards && slices.Equal(o.Sizes, other.Sizes)
}

// Pool is what the nodes of a pool have. The zero value has no node.
type Pool struct {
	// capacity is the healthy cards by type, sizes the memory that there is of cards, in MiB.
	capacity map[string]int64
	sizes    map[int64]bool
	// shapes is how many nodes there are of each.
	shapes map[Shape]int64
	// cards, milliCPU and memoryMiB are the most that one node has, each for itself.
	cards, milliCPU, memoryMiB int64
}

// Add counts a node.
func (p *Pool) Add(node *Offer) {
	if p.shapes == nil {
		p.capacity, p.sizes, p.shapes = map[string]int64{}, map[int64]bool{}, map[Shape]int64{}
	}
	p.shapes[node.Shape]++
	p.capacity[node.Shape.Type] += node.Shape.Cards
	for _, size := range node.Sizes {
		p.sizes[size] = true
	}
	p.cards = max(p.cards, node.Cards)
	p.milliCPU = max(p.milliCPU, node.Shape.MilliCPU)
	p.memoryMiB = max(p.memoryMiB, node.Shape.MemoryMiB)
}

// Equal reports whether two pools have the same.
func (p *Pool) Equal(other *Pool) bool {
	return maps.Equal(p.shapes, other.shapes) && maps.Equal(p.capacity, other.capacity) && maps.Equal(p.sizes, other.sizes) &&
		p.cards == other.cards && p.milliCPU == other.milliCPU && p.memoryMiB == other.memoryMiB
}

// demand returns pods of the pool, as cards of a size see them. Pods that no node of the pool could hold, were it empty,
// are none: they will not come, and one that asks for enough would outweigh all others.
func (p *Pool) demand(counts map[Ask]int64, cardMiB int64) Demand {
	demand := Demand{}
	for asked, pods := range counts {
		if p.couldHold(&asked, cardMiB) {
			if class := asked.Class(cardMiB); class.Cards > 0 {
				demand[class] += pods
			}
		}
	}
	return demand
}

// couldHold reports whether the pool's largest node, with cards of a size, has as much as a pod asks for.
func (p *Pool) couldHold(a *Ask, cardMiB int64) bool {
	slots := p.cards * (cardMiB / max(a.ShareMiB, 1))
	return a.Whole <= p.cards && a.Shared <= slots && a.MilliCPU <= p.milliCPU && a.MemoryMiB <= p.memoryMiB
}
