package fit

import (
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// FreeCards returns how many healthy cards no pod holds anything of.
func (n *Node) FreeCards() int {
	unknown := n.used.Unknown()
	return max(0, n.allocator.Free(&n.used).Len()-int(unknown.Whole+unknown.Shared))
}

// FreeGPUs returns how many whole GPUs a new pod could get: healthy cards that no pod holds anything of, and no more
// than the node offers beyond what pods ask. Whether the node takes new pods is not looked at.
func (n *Node) FreeGPUs() int64 {
	left := n.Free[names.ResourceGPU]
	return max(0, min(left.Value(), int64(n.FreeCards())))
}

// FreeSlots returns how many slots on shared GPUs a new pod could get. Slots of cards that are not healthy are none.
func (n *Node) FreeSlots() int64 {
	cards := n.cards()
	if cards == 0 {
		return 0
	}
	left, all := n.Free[names.ResourceSharedGPU], n.Object.Status.Allocatable[names.ResourceSharedGPU]
	return max(0, left.Value()-all.Value()/cards*n.UnhealthyCards())
}

// Slot returns what each of the node's cards is, where its GPUs are offered in parts.
func (n *Node) Slot() gpu.Slot { return n.allocator.Inventory().Slot }

// UnhealthyCards returns how many cards are not given out because they are not healthy, no matter who holds them.
func (n *Node) UnhealthyCards() int64 {
	return n.cards() - int64(n.allocator.Healthy().Len())
}

// InMIGMode reports whether the node tells of cards in MIG mode.
func (n *Node) InMIGMode() bool { return len(n.allocator.Inventory().Sliced) > 0 }

// CardMemory returns the memory in MiB of the largest card, 0 where nothing tells. Of a node that offers no cards it is
// what the labels promise.
func (n *Node) CardMemory() int64 {
	if n.cards() == 0 {
		labelled, _ := gpu.LabelledMemory(n.Object) // a label that cannot be read tells nothing
		return labelled
	}
	most := int64(0)
	for _, card := range n.allocator.Inventory().Cards {
		most = max(most, card.MemoryMiB)
	}
	return most
}

// ShareableMemory returns the most memory in MiB that shares can hold of one card, 0 where nothing tells.
func (n *Node) ShareableMemory() int64 {
	if n.cards() == 0 {
		card := gpu.Card{MemoryMiB: n.CardMemory()}
		return card.ShareableMiB()
	}
	most := int64(0)
	for i := range n.allocator.Inventory().Cards {
		most = max(most, n.allocator.Inventory().Cards[i].ShareableMiB())
	}
	return most
}

func (n *Node) cards() int64 {
	return int64(len(n.allocator.Inventory().Cards))
}
