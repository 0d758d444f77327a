package gpuscore

import (
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// leastFragmentation values a node by what the pod would waste there, 0–100 points in units of fragmentation.Fraction, and
// says whether its cards are in use.
func (p *Plugin) leastFragmentation(s *state, node fwk.NodeInfo) (value int64, inUse bool) {
	allocator, used, _ := p.Devices.Cards(node)
	plan, reason := allocator.Allocate(used, &s.wants.Demand)
	if !reason.IsZero() {
		return 0, false
	}
	expected := s.forecast.of(gpu.PoolOf(node.Node()))
	if expected == nil {
		return 0, false // a node without cards, or the first of its pool, which came a moment ago
	}
	cardMiB := cardMemory(allocator, plan.Whole|plan.Shared)
	values := expected.models[cardMiB]
	if values == nil {
		return 0, false // cards of another size than others of the pool, which came a moment ago
	}
	shape := shapeOf(node, allocator)
	left := fragmentation.Node{
		Cards: shape.Cards, Pressure: expected.pressure[shape.Type], Scarcity: expected.scarcity[shape],
	}
	left.MilliCPU, left.MemoryMiB = leftOf(node)
	after := expected.value(&placement{allocator, used, &plan}, &left)
	class := s.ask.class(cardMiB)
	return fragmentation.Value(values.Waste(&left, &class, after)), left.Unused < left.Cards
}

// leftOf is the CPU and the memory of a node that no pod has asked for.
func leftOf(node fwk.NodeInfo) (milliCPU, memoryMiB int64) {
	all, asked := node.GetAllocatable(), node.GetRequested()
	return all.GetMilliCPU() - asked.GetMilliCPU(), (all.GetMemory() - asked.GetMemory()) >> 20
}

// placement is cards chosen on a node.
type placement struct {
	allocator *gpu.Allocator
	used      *gpu.Used
	plan      *gpu.Allocation
}

// value adds the cards of a node to what is left of it, and returns what the free ones are worth afterwards. Each is
// worth what the demand makes of cards of its size.
func (o *outlook) value(on *placement, left *fragmentation.Node) (after fragmentation.After) {
	cards := on.allocator.Inventory().Cards
	cardMiB := int64(-1)
	var values *fragmentation.Model
	unnamed := on.used.Unknown().Whole // cards that are held, and nobody knows which
	for rest := on.allocator.Healthy(); rest != 0; rest &= rest - 1 {
		card := rest.First()
		free := freeOf(on.allocator, on.used, card)
		if free == fragmentation.Whole && unnamed > 0 {
			unnamed--
			continue
		}
		if free == fragmentation.Whole {
			left.Unused++
		}
		if cards[card].MemoryMiB != cardMiB {
			cardMiB = cards[card].MemoryMiB
			values = o.models[cardMiB]
		}
		taken := takenOf(on.allocator, on.plan, card)
		if taken > 0 {
			after.Rest += free - taken
		}
		if values != nil { // else a size that came a moment ago
			left.Free += values.Card(free)
			after.Free += values.Card(free - taken)
		}
	}
	return after
}

// cardMemory is the memory of the first of some cards, or of the node's first if they are none. A pod whose cards
// differ is valued as if all were like that one.
func cardMemory(allocator *gpu.Allocator, chosen gpu.Set) int64 {
	cards := allocator.Inventory().Cards
	switch {
	case len(cards) == 0:
		return 0
	case chosen == 0:
		return cards[0].MemoryMiB
	}
	return cards[chosen.First()].MemoryMiB
}

// freeOf returns what is free of a card, in thousandths.
func freeOf(allocator *gpu.Allocator, used *gpu.Used, card int) int64 {
	memory := allocator.Inventory().Cards[card].MemoryMiB
	switch {
	case used.Whole().Has(card):
		return 0
	case !used.Shared().Has(card):
		return fragmentation.Whole
	case memory == 0:
		return 0
	}
	return max(memory-used.MemoryOn(card), 0) * fragmentation.Whole / memory
}

// takenOf returns what an allocation takes of a card, in thousandths.
func takenOf(allocator *gpu.Allocator, plan *gpu.Allocation, card int) int64 {
	switch {
	case plan.Whole.Has(card):
		return fragmentation.Whole
	case plan.Shared.Has(card):
		return thousandths(plan.MemoryOn(card), allocator.Inventory().Cards[card].MemoryMiB)
	}
	return 0
}
