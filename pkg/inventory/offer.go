package inventory

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// Offer is what a pool has of one type of GPU, regardless of current use.
type Offer struct {
	Pool string
	// GPUType is "" for nodes without GPUs, or with GPUs of unknown type.
	GPUType string
	Nodes   int
	// MaxGPUs is the number of whole GPUs of its largest node, MaxShared that of slots on shared ones.
	MaxGPUs, MaxShared int64
	// MIG has the MIG slices of its nodes; Allocatable is that of the node with the most of a profile.
	MIG []ProfileCount
	// GPUMemory is the memory of its largest GPU, zero if no label gives it.
	GPUMemory resource.Quantity
	// Shareable is the most that shares can hold of one of its GPUs, zero if none is shared or no label gives it.
	Shareable resource.Quantity
	// Sizes is the size of each of its nodes: whole GPUs, or slots of shared ones if there are more of them.
	Sizes []int64
	// NodeTopology is the topology of each of its nodes, in the order of Sizes.
	NodeTopology []topology.Node
}

// Offers is what the pools of the cluster could ever give to a job, sorted by pool and type.
func (c *Cluster) Offers() []Offer { return buildOffers(c.Nodes) }

func buildOffers(nodes []Node) []Offer {
	var out []Offer
	for _, node := range nodes {
		i := slices.IndexFunc(out, func(o Offer) bool { return o.Pool == node.Pool && o.GPUType == node.GPUType })
		if i < 0 {
			i = len(out)
			out = append(out, Offer{Pool: node.Pool, GPUType: node.GPUType})
		}
		out[i].Nodes++
		size, most := node.GPUs.Allocatable, node.GPUs.Allocatable
		if node.Slots != nil {
			size, most = node.Slots.Allocatable, min(node.Slots.Allocatable, 1) // a pod gets one
		}
		out[i].MaxGPUs = max(out[i].MaxGPUs, most)
		if node.SharedGPUs != nil {
			out[i].MaxShared = max(out[i].MaxShared, node.SharedGPUs.Allocatable)
			size = max(size, node.SharedGPUs.Allocatable)
		}
		out[i].MIG = maxProfileCounts(out[i].MIG, node.MIG)
		if memory, err := resource.ParseQuantity(node.MemoryPerGPU); err == nil && memory.Cmp(out[i].GPUMemory) > 0 {
			out[i].GPUMemory = memory
		}
		if memory, err := resource.ParseQuantity(node.ShareablePerGPU); err == nil && memory.Cmp(out[i].Shareable) > 0 {
			out[i].Shareable = memory
		}
		out[i].Sizes = append(out[i].Sizes, size)
		out[i].NodeTopology = append(out[i].NodeTopology, topology.Node{Name: node.Name, Labels: node.Labels})
	}
	slices.SortFunc(out, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.GPUType, b.GPUType))
	})
	return out
}
