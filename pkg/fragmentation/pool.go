package fragmentation

import (
	"maps"
	"math/bits"
	"slices"
)

// Offer is what a node has when nothing runs on it. That of a node without healthy cards is zero.
type Offer struct {
	Pool  string
	Shape Shape
	// Cards counts also those that are not healthy, and Sizes are what shares can hold of cards, in MiB.
	Cards int64
	Sizes []int64
}

// Equal reports whether two offers are the same.
func (o *Offer) Equal(other *Offer) bool {
	return o.Pool == other.Pool && o.Shape == other.Shape && o.Cards == other.Cards && slices.Equal(o.Sizes, other.Sizes)
}

// Pool is what the nodes of a pool have. The zero value has no node.
type Pool struct {
	// capacity is the healthy cards by type.
	capacity map[string]int64
	// sizes is the memory that there is of cards, in MiB: the largest of each bucket, see [coarse].
	sizes map[int64]int64
	// hosts are the nodes by the bucket of their shape.
	hosts map[Shape]hosts
	// cards, milliCPU and memoryMiB are the most that one node has, each for itself.
	cards, milliCPU, memoryMiB int64
}

// hosts are nodes whose shapes are much the same.
type hosts struct {
	count int64
	// most is what one of them has, where all are of one shape, and else the most of each.
	most Shape
}

// significant is how many leading bits of an amount tell shapes and sizes of cards apart. Machines of one model differ by
// some MiB, each from each; with seven bits amounts are told apart that differ by 1.6 % or more, and some that differ by
// less. The round amounts that a cluster is planned with keep all their bits.
const significant = 7

// coarse is an amount without its less significant bits: what there is in one bucket.
func coarse(amount int64) int64 {
	shift := max(0, bits.Len64(uint64(max(amount, 0)))-significant)
	return amount >> shift << shift
}

// bucket is what shapes have in common that are much the same: whole cores, and of both amounts the leading bits.
func (s Shape) bucket() Shape {
	s.MilliCPU, s.MemoryMiB = 1000*coarse(s.MilliCPU/1000), coarse(s.MemoryMiB)
	return s
}

// Add counts a node.
func (p *Pool) Add(node *Offer) {
	if p.hosts == nil {
		p.capacity, p.sizes, p.hosts = map[string]int64{}, map[int64]int64{}, map[Shape]hosts{}
	}
	like := p.hosts[node.Shape.bucket()]
	like.most = Shape{
		Cards: node.Shape.Cards, Type: node.Shape.Type,
		MilliCPU: max(like.most.MilliCPU, node.Shape.MilliCPU), MemoryMiB: max(like.most.MemoryMiB, node.Shape.MemoryMiB),
	}
	like.count++
	p.hosts[node.Shape.bucket()] = like
	p.capacity[node.Shape.Type] += node.Shape.Cards
	for _, size := range node.Sizes {
		p.sizes[coarse(size)] = max(p.sizes[coarse(size)], size)
	}
	p.cards = max(p.cards, node.Cards)
	p.milliCPU = max(p.milliCPU, node.Shape.MilliCPU)
	p.memoryMiB = max(p.memoryMiB, node.Shape.MemoryMiB)
}

// Equal reports whether two pools have the same.
func (p *Pool) Equal(other *Pool) bool {
	return maps.Equal(p.hosts, other.hosts) && maps.Equal(p.capacity, other.capacity) && maps.Equal(p.sizes, other.sizes) &&
		p.cards == other.cards && p.milliCPU == other.milliCPU && p.memoryMiB == other.memoryMiB
}

// shapes is how many nodes there are of each shape, those that are much the same as one.
func (p *Pool) shapes() map[Shape]int64 {
	shapes := make(map[Shape]int64, len(p.hosts))
	for _, like := range p.hosts {
		shapes[like.most] += like.count
	}
	return shapes
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
