package gpu

import (
	"fmt"
	"math/rand/v2"
)

// inventory returns n healthy cards of 80 GiB, of which the driver keeps nothing, without any connection, changed by the given
// functions.
func inventory(n int, changes ...func(*Inventory)) Inventory {
	inv := Inventory{GPUs: make([]GPU, n)}
	for i := range inv.GPUs {
		inv.GPUs[i] = GPU{UUID: fmt.Sprintf("GPU-%02d", i), Index: i, MemoryMiB: 81920, ReservedMiB: new(int64), Health: Healthy}
	}
	for _, change := range changes {
		change(&inv)
	}
	return inv
}

// linked connects each two of some cards by NVLink.
func linked(gbps int, cards ...int) func(*Inventory) {
	return func(inv *Inventory) {
		inv.Links = append(inv.Links, Link{GPUs: cards, BandwidthGBps: gbps})
	}
}

// switched puts each perSwitch cards under a PCIe switch, and each perNUMA on a NUMA node.
func switched(perSwitch, perNUMA int) func(*Inventory) {
	return func(inv *Inventory) {
		for i := range inv.GPUs {
			numa := i / perNUMA
			inv.GPUs[i].PCIeSwitch = fmt.Sprintf("sw%d", i/perSwitch)
			inv.GPUs[i].NUMANode = &numa
		}
	}
}

func sized(memory ...int64) func(*Inventory) {
	return func(inv *Inventory) {
		for i := range memory {
			inv.GPUs[i].MemoryMiB = memory[i]
		}
	}
}

// reserving has the driver keep so much of each card.
func reserving(reservedMiB int64) func(*Inventory) {
	return func(inv *Inventory) {
		for i := range inv.GPUs {
			inv.GPUs[i].ReservedMiB = &reservedMiB
		}
	}
}

func unhealthy(cards ...int) func(*Inventory) {
	return func(inv *Inventory) {
		for _, card := range cards {
			inv.GPUs[card].Health = "Xid79"
		}
	}
}

// hybridCubeMesh is the NVLink layout of a DGX-1 with V100: six links a card, two to some neighbours, one
// to others, none to three cards.
func hybridCubeMesh() Inventory {
	inv := inventory(8, switched(2, 4))
	for _, pair := range [][2]int{{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}} {
		linked(50, pair[0], pair[1])(&inv)
	}
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}} {
		linked(25, pair[0], pair[1])(&inv)
	}
	return inv
}

// nvSwitch is an HGX board: all cards reach each other at full speed.
func nvSwitch(n int) Inventory {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return inventory(n, switched(2, 4), linked(450, all...))
}

// pcie is a board without NVLink: two switches of four cards, each on its NUMA node.
func pcie() Inventory { return inventory(8, switched(4, 4)) }

// randomInventory draws cards, switches, NUMA nodes and links.
func randomInventory(r *rand.Rand, n int) Inventory {
	inv := inventory(n, switched(1+r.IntN(4), 1+r.IntN(8)))
	speeds := []int{25, 50, 100, 300}
	density := r.IntN(4)
	for a := range n {
		for b := range a {
			if r.IntN(4) < density {
				linked(speeds[r.IntN(len(speeds))], b, a)(&inv)
			}
		}
	}
	return inv
}

// conflicts returns the cards that pods hold against each other: whole by two, or whole and shared. Our
// allocator makes none; a second scheduler on the same node can.
func (u *Used) conflicts() Set {
	conflicts := u.whole & u.shared
	for card := range u.whole.All() {
		if u.holders[card] > 1 {
			conflicts |= singleGPU(card)
		}
	}
	return conflicts
}
