package fragmentation

import (
	"maps"
	"math/bits"
	"slices"
)

// Offer is what a node has when nothing runs on it. It is zero for a node without healthy GPUs.
type Offer struct {
	Pool  string
	Shape Shape
	// Cards includes unhealthy GPUs. Sizes are the shareable memory of GPUs, in MiB.
	Cards int64
	Sizes []int64
}

// Equal reports whether two offers are the same.
func (o *Offer) Equal(other *Offer) bool {
	return o.Pool == other.Pool && o.Shape == other.Shape && o.Cards == other.Cards && slices.Equal(o.Sizes, other.Sizes)
}

// Pool is what the nodes of a pool have. The zero value has no node.
type Pool struct {
	// capacity is the number of healthy GPUs by type.
	capacity map[string]int64
	// sizes are the memory sizes of GPUs, in MiB: the largest of each bucket, see [truncateBits].
	sizes map[int64]int64
	// hosts are the nodes by the bucket of their shape.
	hosts map[Shape]hosts
	// cards, milliCPU and memoryMiB are the maximum of one node, each separately.
	cards, milliCPU, memoryMiB int64
}

// hosts are nodes whose shapes are much the same.
type hosts struct {
	count int64
	// most is the shape of each of them, if all are equal, and else the maximum of each amount.
	most Shape
}

// significantBits is how many leading bits distinguish shapes and GPU sizes. Machines of one model differ from each other by some MiB; with seven
// bits amounts that differ by 1.6 % or more are distinct, and some that differ by less. The round amounts that a cluster is planned with keep
// all their bits.
const significantBits = 7

// truncateBits returns an amount without its less significant bits: the bucket.
func truncateBits(amount int64) int64 {
	shift := max(0, bits.Len64(uint64(max(amount, 0)))-significantBits)
	return amount >> shift << shift
}

// toBucket returns what similar shapes have in common: whole cores, and the leading bits of both amounts.
func (s Shape) toBucket() Shape {
	s.MilliCPU, s.MemoryMiB = 1000*truncateBits(s.MilliCPU/1000), truncateBits(s.MemoryMiB)
	return s
}

// Add counts a node.
func (p *Pool) Add(node *Offer) {
	if p.hosts == nil {
		p.capacity, p.sizes, p.hosts = map[string]int64{}, map[int64]int64{}, map[Shape]hosts{}
	}
	like := p.hosts[node.Shape.toBucket()]
	like.most = Shape{
		Cards: node.Shape.Cards, Type: node.Shape.Type,
		MilliCPU: max(like.most.MilliCPU, node.Shape.MilliCPU), MemoryMiB: max(like.most.MemoryMiB, node.Shape.MemoryMiB),
	}
	like.count++
	p.hosts[node.Shape.toBucket()] = like
	p.capacity[node.Shape.Type] += node.Shape.Cards
	for _, size := range node.Sizes {
		p.sizes[truncateBits(size)] = max(p.sizes[truncateBits(size)], size)
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

// countShapes returns the number of nodes of each shape, with similar ones counted as one.
func (p *Pool) countShapes() map[Shape]int64 {
	shapes := make(map[Shape]int64, len(p.hosts))
	for _, like := range p.hosts {
		shapes[like.most] += like.count
	}
	return shapes
}

// poolDemand returns the pods of the pool, as GPUs of a size see them. Pods that no empty node of the pool could hold are left out: they will not be
// placed, and one with a large enough request would outweigh all others.
func (p *Pool) poolDemand(counts map[PodRequest]int64, cardMiB int64) Demand {
	demand := Demand{}
	for asked, pods := range counts {
		if p.couldHold(&asked, cardMiB) {
			if class := asked.ClassOn(cardMiB); class.Cards > 0 {
				demand[class] += pods
			}
		}
	}
	return demand
}

// couldHold reports whether the pool's largest node, with GPUs of a size, has as much as a pod requests.
func (p *Pool) couldHold(a *PodRequest, cardMiB int64) bool {
	slots := p.cards * (cardMiB / max(a.ShareMiB, 1))
	return a.Whole <= p.cards && a.Shared <= slots && a.MilliCPU <= p.milliCPU && a.MemoryMiB <= p.memoryMiB
}
