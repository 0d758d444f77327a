package gpuexplain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// maxWeighedNodes is how many nodes are checked GPU by GPU, those with the most free GPUs.
const maxWeighedNodes = 4 * explain.MaxNearMisses

// nearMisses returns the nodes that lack the fewest GPUs for the pod, among those where GPUs are what is missing.
func (p *Plugin) nearMisses(pod *corev1.Pod, short []fwk.NodeInfo) []explain.NearMiss {
	demand, err := gpu.DemandOf(pod)
	if err != nil || !demand.NeedsGPUs() || len(short) == 0 {
		return nil
	}
	var misses []explain.NearMiss
	for _, node := range mostFreeNodes(&demand, short) {
		if reason := p.GPUs.GPUShortage(&demand, node); reason.IsShortage() {
			misses = append(misses, explain.NearMiss{Node: node.Node().Name, Short: reason.MissingGPUs(), Detail: reason.Detail()})
		}
	}
	slices.SortStableFunc(misses, func(a, b explain.NearMiss) int { return cmp.Compare(a.Short, b.Short) })
	return misses[:min(len(misses), explain.MaxNearMisses)]
}

// mostFreeNodes returns the nodes with the most free units of what the pod asks for, equal ones by name.
func mostFreeNodes(demand *gpu.Demand, nodes []fwk.NodeInfo) []fwk.NodeInfo {
	type weighed struct {
		node fwk.NodeInfo
		free int64
	}
	var best []weighed
	for _, node := range nodes {
		next := weighed{node, freeUnits(demand, node)}
		at, _ := slices.BinarySearchFunc(best, next, func(a, b weighed) int {
			return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.node.Node().Name, b.node.Node().Name))
		})
		if at < maxWeighedNodes {
			best = slices.Insert(best, at, next)
			best = best[:min(len(best), maxWeighedNodes)]
		}
	}
	out := make([]fwk.NodeInfo, len(best))
	for i := range best {
		out[i] = best[i].node
	}
	return out
}

// countedGPUs knows GPUs only by number.
type countedGPUs struct{}

// GPUShortage implements Cards.
func (countedGPUs) GPUShortage(demand *gpu.Demand, node fwk.NodeInfo) gpu.Reason {
	reason := gpu.Reason{Code: gpu.TooFewFree, Asked: requestedUnits(demand), Usable: freeUnits(demand, node)}
	reason.Total = node.GetAllocatable().GetScalarResources()[requestedResource(demand)]
	if reason.MissingGPUs() == 0 || reason.Asked > reason.Total {
		return gpu.Reason{}
	}
	return reason
}

// ChosenGPUs implements Cards.
func (countedGPUs) ChosenGPUs(types.UID, string) (devices, reason string) { return "", "" }

// requestedResource is the resource that the pod requests: whole GPUs, else slots on shared ones.
func requestedResource(demand *gpu.Demand) corev1.ResourceName {
	if demand.Whole > 0 {
		return names.ResourceGPU
	}
	return names.ResourceSharedGPU
}

func requestedUnits(demand *gpu.Demand) int64 {
	if demand.Whole > 0 {
		return demand.Whole
	}
	return demand.Shared
}

// freeUnits is what the node has of the resource beyond the requests of its pods, by count. A negative sum of requests has wrapped, so the node
// counts as full.
func freeUnits(demand *gpu.Demand, node fwk.NodeInfo) int64 {
	allocatable := node.GetAllocatable().GetScalarResources()[requestedResource(demand)]
	requested := node.GetRequested().GetScalarResources()[requestedResource(demand)]
	if requested < 0 {
		return 0
	}
	return max(allocatable-requested, 0)
}
