package gpu

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Allocator chooses cards of one node. It is the node's inventory made ready: it never changes, holds
// nothing of who uses the cards, and may be used from many goroutines. Up to 16 cards its choices are
// exact and allocate no memory.
type Allocator struct {
	inventory    Inventory
	topology     *Topology
	all, healthy Set
	memoryMiB    [MaxCards]int64
	shareableMiB [MaxCards]int64
	positions    map[string]int // by UUID
	build        *Build
	models       []cardModel // nil where the node's labels hold for all cards
	slices       *sliceTable // nil where the node names none
}

// NewAllocator makes an inventory ready. The inventory must not be changed afterwards. Nodes that are built
// alike share the tables in topologies, which may be nil. The error tells what is wrong with the inventory.
func NewAllocator(inventory Inventory, topologies *Topologies) (*Allocator, error) {
	if err := inventory.Validate(); err != nil {
		return nil, fmt.Errorf("checking the inventory: %w", err)
	}
	return newAllocator(inventory, topologies, nil), nil
}

// AllocatorOf makes what is known of a node's cards ready. The error tells what had to be ignored on the way, as that of [InventoryOf] does.
func AllocatorOf(node *corev1.Node, topologies *Topologies) (*Allocator, error) {
	inventory, err := InventoryOf(node)
	return newAllocator(inventory, topologies, ownTypes(node)), err
}

// newAllocator makes a valid inventory ready. The node's own types are those that an administrator wrote.
func newAllocator(inventory Inventory, topologies *Topologies, own []string) *Allocator {
	if topologies == nil {
		topologies = &Topologies{}
	}
	a := &Allocator{
		inventory: inventory,
		topology:  topologies.of(&inventory),
		all:       firstCards(len(inventory.Cards)),
		positions: make(map[string]int, len(inventory.Cards)),
		models:    modelsIn(&inventory, own),
		slices:    newSliceTable(&inventory),
	}
	for i := range inventory.Cards {
		card := &inventory.Cards[i]
		a.memoryMiB[i], a.shareableMiB[i] = card.MemoryMiB, card.ShareableMiB()
		a.positions[card.UUID] = i
		if card.Health == Healthy {
			a.healthy |= only(i)
		}
	}
	a.build = topologies.build(Build{
		topology: a.topology, all: a.all, healthy: a.healthy, memoryMiB: a.memoryMiB, shareableMiB: a.shareableMiB, models: describeModels(a.models),
	})
	return a
}

// Inventory returns the node's inventory, which must not be changed.
func (a *Allocator) Inventory() *Inventory { return &a.inventory }

// Healthy returns the cards that may be given out.
func (a *Allocator) Healthy() Set { return a.healthy }

// Free returns the healthy cards of which no known pod holds anything. As many of them as [Used.Unknown]
// counts are in use all the same.
func (a *Allocator) Free(used *Used) Set { return a.healthy &^ used.whole &^ used.shared }

// Allocation is the cards chosen for a pod.
type Allocation struct {
	// Holding is what the pod holds of the node.
	Holding
	containers [MaxContainers]Set
}

// Container returns the cards of the i-th container of the demand. Those in Whole are its own, those in
// Shared have one slot for it.
func (al *Allocation) Container(i int) Set { return al.containers[i] }

// Allocate chooses the cards for a demand, or tells why there are none. It is a function of its arguments:
// asking first and allocating later gives the same cards as long as used is the same, so a dry run is a
// call of which the result is thrown away.
//
// A card is held whole by one pod, or shared by some; never both. Unhealthy cards and those with less than
// the demanded memory are not chosen. Shares of a card hold no more than the driver leaves of it: see [Card.ShareableMiB].
//
// Whole cards: the free set with the highest sum of pair bandwidth; among equals the one that leaves the
// most ideal sets of 8, 4 and 2 cards (see [Potential]), then the best connected rest, then the lowest
// positions. A pod's set is chosen as one and then divided, the largest container first. Init containers
// use the cards of containers that start after them.
//
// Shared cards: different cards for one container; cards that are shared already before free ones, those
// with the least memory left first. See [sharing].
//
// Cards that pods hold without naming them could be any. With u of them and f free cards that would serve
// the demand, f-u remain: the u best connected of the f count as taken, whatever the demand. So no count is
// ever exceeded, though the cards of those pods cannot be told. For a demand that shares, the memory they
// may hold is taken from every card.
func (a *Allocator) Allocate(used *Used, d *Demand) (Allocation, Reason) {
	var plan Allocation
	code := a.place(used, d, &plan)
	if code == Fits {
		return plan, Reason{}
	}
	return Allocation{}, a.explain(used, d, code)
}

func (a *Allocator) place(used *Used, d *Demand, plan *Allocation) Code {
	if d.widestShare() > 0 && !a.placeShared(used, d, plan) {
		return TooFewShareable
	}
	if d.wholePeak() > 0 && (!a.countsFor(d) || !a.placeWhole(used, d, plan)) {
		return TooFewFree
	}
	return Fits
}

// countsFor reports whether the node's cards are as many GPUs as they count for a demand. Parts of GPUs are not: two could be of one.
func (a *Allocator) countsFor(d *Demand) bool {
	return a.inventory.Slot.IsWhole() || d.wholePeak() <= 1
}

// placeWhole chooses the pod's whole cards, out of those it does not share itself.
func (a *Allocator) placeWhole(used *Used, d *Demand, plan *Allocation) bool {
	free := a.freeWhole(used, d) &^ plan.Shared
	count := d.wholePeak()
	if count > int64(free.Len()) {
		return false
	}
	plan.Whole = a.topology.best(free, int(count))
	a.divideWhole(d, plan)
	return true
}

// freeWhole returns the cards that may be given whole.
func (a *Allocator) freeWhole(used *Used, d *Demand) Set {
	free := a.suited(d) &^ used.whole &^ used.shared
	return a.withhold(free, used.unknown.Whole+used.unknown.Shared)
}

// withhold takes the count best connected cards off a set, for pods that hold some but do not name them.
func (a *Allocator) withhold(free Set, count int64) Set {
	if count >= int64(free.Len()) {
		return 0
	}
	return free &^ a.topology.best(free, int(count))
}

// suited returns the healthy cards with the memory and of a type that is demanded.
func (a *Allocator) suited(d *Demand) Set { return a.atLeast(d.MemoryMinMiB) & a.ofTypes(d) }

// atLeast returns the healthy cards with an amount of memory.
func (a *Allocator) atLeast(memoryMiB int64) Set {
	if memoryMiB <= 0 {
		return a.healthy
	}
	return a.healthy & a.large(memoryMiB)
}

// large returns the cards with an amount of memory.
func (a *Allocator) large(memoryMiB int64) Set { return a.having(&a.memoryMiB, memoryMiB) }

// having returns the cards that have an amount or more.
func (a *Allocator) having(amounts *[MaxCards]int64, amount int64) Set {
	var cards Set
	for card := range a.inventory.Cards {
		if amounts[card] >= amount {
			cards |= only(card)
		}
	}
	return cards
}

// divideWhole gives each container its part of the pod's whole cards.
func (a *Allocator) divideWhole(d *Demand, plan *Allocation) {
	left := plan.Whole
	var done Set
	for i := d.largest(done, wholeOf); i >= 0; i = d.largest(done, wholeOf) {
		set := a.topology.best(left, int(d.Containers[i].Whole))
		plan.containers[i] |= set
		left &^= set
		done |= only(i)
	}
	for i := range d.Containers {
		if asked := d.Containers[i].Whole; d.Containers[i].Lifetime == Init && asked > 0 {
			plan.containers[i] |= a.topology.best(plan.Whole&^plan.sidecarsBefore(d, i), int(asked))
		}
	}
}

// sidecarsBefore returns the cards of the sidecars that run while an init container does.
func (al *Allocation) sidecarsBefore(d *Demand, i int) Set {
	var cards Set
	for j := range i {
		if d.Containers[j].Lifetime == Sidecar {
			cards |= al.containers[j]
		}
	}
	return cards
}

func wholeOf(c *ContainerDemand) int64  { return c.Whole }
func sharedOf(c *ContainerDemand) int64 { return c.Shared }

// largest returns which container that lives as long as the pod asks the most and is not done yet, the
// first of equals, or -1 when none asks any more.
func (d *Demand) largest(done Set, asked func(*ContainerDemand) int64) int {
	largest, most := -1, int64(0)
	for i := range d.Containers {
		if c := &d.Containers[i]; c.Lifetime != Init && !done.Has(i) && asked(c) > most {
			largest, most = i, asked(c)
		}
	}
	return largest
}
