package gpu

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Allocator chooses GPUs of one node. It is a prepared form of the node's inventory: it never changes, keeps no record of which pods use the GPUs,
// and is safe for concurrent use. Up to 16 GPUs its choices are exact and allocate no memory.
type Allocator struct {
	inventory    Inventory
	topology     *Topology
	all, healthy Set
	memoryMiB    [MaxGPUs]int64
	shareableMiB [MaxGPUs]int64
	positions    map[string]int // by UUID
	hardware     *Hardware
	models       []gpuModel  // nil where the node's labels hold for all GPUs
	slices       *sliceTable // nil where the node names none
}

// NewAllocator prepares an inventory, which must not be changed afterwards. Nodes with the same hardware share the tables in topologies, which may be
// nil. The error describes what is wrong with the inventory.
func NewAllocator(inventory Inventory, topologies *Topologies) (*Allocator, error) {
	if err := inventory.Validate(); err != nil {
		return nil, fmt.Errorf("checking the inventory: %w", err)
	}
	return newAllocator(inventory, topologies, nil), nil
}

// AllocatorOf prepares what is known of a node's GPUs. The error describes what was ignored, like that of [InventoryOf].
func AllocatorOf(node *corev1.Node, topologies *Topologies) (*Allocator, error) {
	inventory, err := InventoryOf(node)
	return newAllocator(inventory, topologies, ownTypes(node)), err
}

// newAllocator prepares a valid inventory. The node's own types are those set by an administrator.
func newAllocator(inventory Inventory, topologies *Topologies, own []string) *Allocator {
	if topologies == nil {
		topologies = &Topologies{}
	}
	a := &Allocator{
		inventory: inventory,
		topology:  topologies.topologyFor(&inventory),
		all:       firstPositions(len(inventory.GPUs)),
		positions: make(map[string]int, len(inventory.GPUs)),
		models:    findModels(&inventory, own),
		slices:    newSliceTable(&inventory),
	}
	for i := range inventory.GPUs {
		card := &inventory.GPUs[i]
		a.memoryMiB[i], a.shareableMiB[i] = card.MemoryMiB, card.ShareableMiB()
		a.positions[card.UUID] = i
		if card.Health == Healthy {
			a.healthy |= singleGPU(i)
		}
	}
	a.hardware = topologies.internHardware(Hardware{
		topology: a.topology, all: a.all, healthy: a.healthy, memoryMiB: a.memoryMiB, shareableMiB: a.shareableMiB, models: describeModels(a.models),
	})
	return a
}

// Inventory returns the node's inventory, which must not be changed.
func (a *Allocator) Inventory() *Inventory { return &a.inventory }

// HealthyGPUs returns the GPUs that may be allocated.
func (a *Allocator) HealthyGPUs() Set { return a.healthy }

// FreeGPUs returns the healthy GPUs of which no known pod holds anything. As many of them as [Used.UnknownUse] counts are in use nevertheless.
func (a *Allocator) FreeGPUs(used *Used) Set { return a.healthy &^ used.whole &^ used.shared }

// Allocation is the GPUs chosen for a pod.
type Allocation struct {
	// Holding is what the pod holds of the node.
	Holding
	containers [MaxContainers]Set
}

// ContainerGPUs returns the GPUs of the i-th container of the demand. Those in Whole are its own, those in
// Shared have one slot for it.
func (al *Allocation) ContainerGPUs(i int) Set { return al.containers[i] }

// Allocate chooses the GPUs for a demand, or explains why there are none. It is a function of its arguments: asking first and allocating later
// gives the same GPUs as long as used is the same. So a dry run is a call whose result is discarded.
//
// A GPU is held whole by one pod, or shared by some; never both. Unhealthy GPUs and those with less than
// the demanded memory are not chosen. Shares of a GPU together never exceed the memory that the driver leaves: see [GPU.ShareableMiB].
//
// Whole GPUs: the free set with the highest sum of pair bandwidth; among equals the one that leaves the
// most ideal sets of 8, 4 and 2 GPUs (see [Potential]), then the best connected rest, then the lowest
// positions. A pod's set is chosen as one and then divided, the largest container first. Init containers
// use the GPUs of containers that start after them.
//
// Shared GPUs: different GPUs for one container; GPUs that are shared already before free ones, those
// with the least memory left first. See [slotPlacement].
//
// GPUs that pods hold without naming them could be any. With u of them and f free GPUs that would serve
// the demand, f-u remain: the u best connected of the f count as taken, whatever the demand. So no count is
// ever exceeded, although the GPUs of those pods are unknown. For a demand with shares, the memory that they
// may hold is subtracted from every GPU.
func (a *Allocator) Allocate(used *Used, d *Demand) (Allocation, Reason) {
	var plan Allocation
	code := a.placeDemand(used, d, &plan)
	if code == Fits {
		return plan, Reason{}
	}
	return Allocation{}, a.explainShortage(used, d, code)
}

func (a *Allocator) placeDemand(used *Used, d *Demand, plan *Allocation) Code {
	if d.widestShare() > 0 && !a.placeShared(used, d, plan) {
		return TooFewShareable
	}
	if d.wholePeak() > 0 && (!a.countsFor(d) || !a.placeWhole(used, d, plan)) {
		return TooFewFree
	}
	return Fits
}

// countsFor reports whether the node's units count as whole GPUs for a demand. Parts of GPUs do not: two could belong to one.
func (a *Allocator) countsFor(d *Demand) bool {
	return a.inventory.Slot.IsWhole() || d.wholePeak() <= 1
}

// placeWhole chooses the pod's whole GPUs, out of those that the pod does not share.
func (a *Allocator) placeWhole(used *Used, d *Demand, plan *Allocation) bool {
	free := a.freeWhole(used, d) &^ plan.Shared
	count := d.wholePeak()
	if count > int64(free.Len()) {
		return false
	}
	plan.Whole = a.topology.bestSet(free, int(count))
	a.divideWhole(d, plan)
	return true
}

// freeWhole returns the GPUs that may be allocated whole.
func (a *Allocator) freeWhole(used *Used, d *Demand) Set {
	free := a.suitableGPUs(d) &^ used.whole &^ used.shared
	return a.withholdUnknown(free, used.unknown.Whole+used.unknown.Shared)
}

// withholdUnknown removes the count best connected GPUs from a set, for pods that hold some without naming them.
func (a *Allocator) withholdUnknown(free Set, count int64) Set {
	if count >= int64(free.Len()) {
		return 0
	}
	return free &^ a.topology.bestSet(free, int(count))
}

// suitableGPUs returns the healthy GPUs with the memory and of a type that the demand requires.
func (a *Allocator) suitableGPUs(d *Demand) Set {
	return a.gpusWithAtLeast(d.MemoryMinMiB) & a.gpusOfTypes(d)
}

// maxRequest returns the healthy GPUs with an amount of memory.
func (a *Allocator) gpusWithAtLeast(memoryMiB int64) Set {
	if memoryMiB <= 0 {
		return a.healthy
	}
	return a.healthy & a.gpusWithMemory(memoryMiB)
}

// gpusWithMemory returns the GPUs with an amount of memory.
func (a *Allocator) gpusWithMemory(memoryMiB int64) Set {
	return a.gpusWithAmount(&a.memoryMiB, memoryMiB)
}

// gpusWithAmount returns the GPUs that have an amount or more.
func (a *Allocator) gpusWithAmount(amounts *[MaxGPUs]int64, amount int64) Set {
	var cards Set
	for card := range a.inventory.GPUs {
		if amounts[card] >= amount {
			cards |= singleGPU(card)
		}
	}
	return cards
}

// divideWhole gives each container its part of the pod's whole GPUs.
func (a *Allocator) divideWhole(d *Demand, plan *Allocation) {
	left := plan.Whole
	var done Set
	for i := d.largestContainer(done, wholeCount); i >= 0; i = d.largestContainer(done, wholeCount) {
		set := a.topology.bestSet(left, int(d.Containers[i].Whole))
		plan.containers[i] |= set
		left &^= set
		done |= singleGPU(i)
	}
	for i := range d.Containers {
		if asked := d.Containers[i].Whole; d.Containers[i].Lifetime == Init && asked > 0 {
			plan.containers[i] |= a.topology.bestSet(plan.Whole&^plan.sidecarsBefore(d, i), int(asked))
		}
	}
}

// sidecarsBefore returns the GPUs of the sidecars that run while an init container does.
func (al *Allocation) sidecarsBefore(d *Demand, i int) Set {
	var cards Set
	for j := range i {
		if d.Containers[j].Lifetime == Sidecar {
			cards |= al.containers[j]
		}
	}
	return cards
}

func wholeCount(c *ContainerDemand) int64  { return c.Whole }
func sharedCount(c *ContainerDemand) int64 { return c.Shared }

// largestContainer returns the container with the largest request among those that live as long as the pod and are not done yet. Ties go to the first. It is
// -1 if none is left.
func (d *Demand) largestContainer(done Set, asked func(*ContainerDemand) int64) int {
	largest, most := -1, int64(0)
	for i := range d.Containers {
		if c := &d.Containers[i]; c.Lifetime != Init && !done.Has(i) && asked(c) > most {
			largest, most = i, asked(c)
		}
	}
	return largest
}
