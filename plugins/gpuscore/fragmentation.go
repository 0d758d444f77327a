package gpuscore

import (
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// leastFragmentation scores a node by what the pod would waste there, 0–100 points in units of fragmentation.Fraction, and returns whether its
// GPUs are in use.
func (p *Plugin) leastFragmentation(s *state, node fwk.NodeInfo) (value int64, inUse bool) {
	placed, ok := p.placementOf(s, node)
	if !ok {
		return 0, false
	}
	return placed.on.NodeValue(&s.ask, placed.cardMiB)
}

// placement is a pod on the GPUs of a node that it would get, with the size of these GPUs.
type placement struct {
	on      fragmentation.Placement
	shape   fragmentation.Shape
	cardMiB int64
}

// placementOf places the pod on a node, and returns false if there are no GPUs for it, or the pool has no known GPUs yet.
func (p *Plugin) placementOf(s *state, node fwk.NodeInfo) (placement, bool) {
	allocator, used, _ := p.Devices.NodeGPUs(node)
	plan, reason := allocator.Allocate(used, &s.wants.Demand)
	if !reason.IsZero() {
		return placement{}, false
	}
	expected := s.forecasts.ForPool(gpu.PoolOf(node.Node()))
	if expected == nil {
		return placement{}, false // a node without cards, or the first of its pool, which came a moment ago
	}
	placed := placement{shape: observe.ShapeOf(node, allocator), cardMiB: gpuMemory(allocator, plan.Whole|plan.Shared)}
	milliCPU, memoryMiB := observe.LeftOf(node)
	placed.on = expected.PlaceOn(&placed.shape, milliCPU, memoryMiB)
	cards := allocator.Inventory().GPUs
	unnamed := used.UnknownUse().Whole // GPUs in use that are not identified
	for card := range allocator.HealthyGPUs().All() {
		free := freeOf(allocator, used, card)
		if free == fragmentation.Whole && unnamed > 0 {
			unnamed--
			continue
		}
		placed.on.AddGPU(cards[card].ShareableMiB(), free, takenOf(allocator, &plan, card))
	}
	return placed, true
}

// valueAt scores the pod on another host with the same GPUs.
func (p *placement) valueAt(s *state, host *hostState) (value int64, inUse bool) {
	shape := p.shape
	shape.MilliCPU, shape.MemoryMiB = host.milliCPU, host.memoryMiB
	on := p.on.MoveTo(&shape, host.leftMilliCPU, host.leftMemoryMiB)
	return on.NodeValue(&s.ask, p.cardMiB)
}

// gpuMemory returns the shareable memory of the first of some GPUs, or of the node's first if the set is empty. If GPUs differ, all are scored
// like that one.
func gpuMemory(allocator *gpu.Allocator, chosen gpu.Set) int64 {
	cards := allocator.Inventory().GPUs
	switch {
	case len(cards) == 0:
		return 0
	case chosen == 0:
		return cards[0].ShareableMiB()
	}
	return cards[chosen.First()].ShareableMiB()
}

// freeOf returns what is free of a card, in thousandths.
func freeOf(allocator *gpu.Allocator, used *gpu.Used, card int) int64 {
	memory := allocator.Inventory().GPUs[card].ShareableMiB()
	switch {
	case used.WholeGPUs().Has(card):
		return 0
	case !used.SharedGPUs().Has(card):
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
		return fragmentation.Thousandths(plan.MemoryOn(card), allocator.Inventory().GPUs[card].ShareableMiB())
	}
	return 0
}
