package fit

import (
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// IdleGPUs returns how many healthy GPUs no pod holds anything of.
func (n *Node) IdleGPUs() int {
	unknown := n.used.UnknownUse()
	return max(0, n.allocator.FreeGPUs(&n.used).Len()-int(unknown.Whole+unknown.Shared))
}

// FreeGPUs returns how many whole GPUs a new pod could get: healthy GPUs that no pod holds anything of, and no more than the node offers beyond
// pod requests. It does not check whether the node accepts new pods.
func (n *Node) FreeGPUs() int64 {
	left := n.Free[names.ResourceGPU]
	return max(0, min(left.Value(), int64(n.IdleGPUs())))
}

// FreeSlots returns how many slots on shared GPUs a new pod could get, without slots of unhealthy GPUs.
func (n *Node) FreeSlots() int64 {
	cards := n.countGPUs()
	if cards == 0 {
		return 0
	}
	left, all := n.Free[names.ResourceSharedGPU], n.Object.Status.Allocatable[names.ResourceSharedGPU]
	return max(0, left.Value()-all.Value()/cards*n.UnhealthyGPUs())
}

// GPUSlot returns the part of a GPU that each of the node's GPUs represents, if they are offered in parts.
func (n *Node) GPUSlot() gpu.Slot { return n.allocator.Inventory().Slot }

// UnhealthyGPUs returns how many GPUs are not allocatable because they are unhealthy, whichever pods hold them.
func (n *Node) UnhealthyGPUs() int64 {
	return n.countGPUs() - int64(n.allocator.HealthyGPUs().Len())
}

// InMIGMode reports whether the node has GPUs in MIG mode.
func (n *Node) InMIGMode() bool { return len(n.allocator.Inventory().Sliced) > 0 }

// SlicedGPUs returns the GPUs that the node reports in MIG mode, in order of index.
func (n *Node) SlicedGPUs() []gpu.SlicedGPU { return n.allocator.Inventory().Sliced }

// GPUMemory returns the memory in MiB of the largest GPU, 0 if unknown. For a node without known GPUs it comes from the labels.
func (n *Node) GPUMemory() int64 {
	if n.countGPUs() == 0 {
		labelled, _ := gpu.LabelledMemory(n.Object) // a malformed label counts as unknown
		return labelled
	}
	most := int64(0)
	for _, card := range n.allocator.Inventory().GPUs {
		most = max(most, card.MemoryMiB)
	}
	return most
}

// ShareableMemory returns the maximum memory in MiB that shares can hold of one GPU, 0 if unknown.
func (n *Node) ShareableMemory() int64 {
	if n.countGPUs() == 0 {
		card := gpu.GPU{MemoryMiB: n.GPUMemory()}
		return card.ShareableMiB()
	}
	most := int64(0)
	for i := range n.allocator.Inventory().GPUs {
		most = max(most, n.allocator.Inventory().GPUs[i].ShareableMiB())
	}
	return most
}

// SharedMemory returns the memory in MiB that shares can hold of all healthy GPUs together, and how much of it they hold; 0 if unknown.
func (n *Node) SharedMemory() (all, held int64) {
	for card := range n.allocator.HealthyGPUs().All() {
		all += n.allocator.Inventory().GPUs[card].ShareableMiB()
		held += n.used.MemoryOn(card)
	}
	unknown := n.used.UnknownUse()
	return all, min(all, held+unknown.Shared*min(unknown.ShareMiB, all))
}

func (n *Node) countGPUs() int64 {
	return int64(len(n.allocator.Inventory().GPUs))
}
