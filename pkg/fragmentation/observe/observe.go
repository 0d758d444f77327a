// Package observe reads, for package fragmentation, what pods request and what nodes offer, and computes the forecasts for the scheduling
// attempts of a profile: from the pods of the scheduler's informer and the nodes of its snapshot.
package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Devices reads the GPUs of nodes.
type Devices interface {
	// NodeGPUs returns a node's GPUs and their usage, as Reserve will see them, and false if only their number is known. Neither may be changed.
	NodeGPUs(node fwk.NodeInfo) (*gpu.Allocator, *gpu.Used, bool)
}

// PodRequestOf parses a pod. Other plugins report malformed GPU requests; here such a pod requests none.
func PodRequestOf(pod *corev1.Pod) fragmentation.PodRequest {
	requests := amounts.Requests(pod)
	a := fragmentation.PodRequest{MilliCPU: requests.Cpu().MilliValue(), MemoryMiB: requests.Memory().Value() >> 20}
	demand, err := gpu.DemandOf(pod)
	if err != nil || !demand.NeedsGPUs() {
		return a
	}
	a.Pool, a.Whole, a.Shared, a.ShareMiB = gpu.PodPool(pod), demand.Whole, demand.Shared, demand.ShareMiB
	if accepted, err := gpu.PodTypes(pod); err == nil {
		a.Types = strings.Join(slices.Sorted(slices.Values(accepted.AcceptedNames())), ",")
	}
	return a
}

// ShapeOf returns what a node with these GPUs has when nothing runs on it.
func ShapeOf(node fwk.NodeInfo, allocator *gpu.Allocator) fragmentation.Shape {
	all := node.GetAllocatable()
	return fragmentation.Shape{
		Cards: int64(allocator.HealthyGPUs().Len()), MilliCPU: all.GetMilliCPU(), MemoryMiB: all.GetMemory() >> 20,
		Type: gpu.TypeOf(node.Node()),
	}
}

// LeftOf returns the unrequested CPU and memory of a node.
func LeftOf(node fwk.NodeInfo) (milliCPU, memoryMiB int64) {
	all, asked := node.GetAllocatable(), node.GetRequested()
	return all.GetMilliCPU() - asked.GetMilliCPU(), (all.GetMemory() - asked.GetMemory()) >> 20
}

// HasGPUsInUse reports whether any GPU of a node is in use.
func HasGPUsInUse(node fwk.NodeInfo) bool {
	requested := node.GetRequested().GetScalarResources()
	return requested[names.ResourceGPU] > 0 || requested[names.ResourceSharedGPU] > 0
}

// offerOf reads a node.
func offerOf(node fwk.NodeInfo, devices Devices) fragmentation.Offer {
	allocator, _, _ := devices.NodeGPUs(node)
	if allocator.HealthyGPUs() == 0 {
		return fragmentation.Offer{}
	}
	cards := allocator.Inventory().GPUs
	o := fragmentation.Offer{Pool: gpu.PoolOf(node.Node()), Shape: ShapeOf(node, allocator), Cards: int64(len(cards))}
	for i := range cards {
		if size := cards[i].ShareableMiB(); !slices.Contains(o.Sizes, size) {
			o.Sizes = append(o.Sizes, size)
		}
	}
	return o
}
