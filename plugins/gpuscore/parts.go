package gpuscore

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// partsOf values a node for a pod that asks for GPUs.
func (p *Plugin) partsOf(s *state, node fwk.NodeInfo) parts {
	value := parts{typeMatch: s.policy.typeMatch(&s.wants.Types, node.Node())}
	if s.forecast == nil {
		value.utilization, value.topology = s.utilization(node), p.topology(&s.wants, node)
		return value
	}
	value.fine, value.inUse = p.leastFragmentation(s, node)
	value.utilization = value.fine / fragmentation.Fraction
	if s.wants.Request.Whole > 1 {
		value.topology = p.topology(&s.wants, node)
	} else { // the sets of cards that a pod of one would break up are part of what it wastes
		value.topology = byInterconnect(s.wants.Request.Whole, gpu.InterconnectOf(node.Node()))
	}
	return value
}

// topology values the very cards that the pod would get, where they are known, else the node's interconnect.
func (p *Plugin) topology(w *wants, node fwk.NodeInfo) int64 {
	if p.Devices != nil && w.Demand.NeedsCards() {
		if allocator, used, ok := p.Devices.Cards(node); ok {
			if value, ok := byCards(allocator, used, &w.Demand); ok {
				return value
			}
		}
	}
	return byInterconnect(w.Request.Whole, gpu.InterconnectOf(node.Node()))
}

// utilization values how a node is filled, by the pod's strategy.
func (s *state) utilization(node fwk.NodeInfo) int64 {
	used, asked, capacity := usage(s.wants.Request, node)
	share := shareAfter(used, asked, capacity)
	switch {
	case s.strategy == configv1.SpreadReplicas:
		bestDomain, bestNode := s.standing(node)
		return spreadReplicas(bestDomain, bestNode, share)
	case s.strategy == configv1.FillHoles && s.wants.Request.Whole > 0:
		return fillHoles(capacity-max(used, 0), asked, share)
	}
	return byShare(s.strategy, s.policy.target, share)
}

// standing says how a node stands among those that the pod's job may have a replica on. A pod of no job stands
// equally well everywhere. Without PreScore only the node itself is known.
func (s *state) standing(node fwk.NodeInfo) (bestDomain, bestNode bool) {
	switch {
	case s.job.name == "":
		return true, true
	case s.replicas == nil:
		none := s.job.replicasOn(node) == 0
		return none, none
	}
	return s.replicas.standing(node.Node())
}

// typeMatch values a node's type. The pod's ordered list decides, else its wishes. Without either, a node that
// passed the filters is all the pod asked for.
func (p *policy) typeMatch(types *gpu.Types, node *corev1.Node) int64 {
	switch {
	case len(types.Accepted) > 0:
		return typeByRank(types.Accepted, gpu.TypeOf(node))
	case len(types.Preferred) > 0:
		return p.bestWish(types.Preferred, node)
	}
	return full
}

// bestWish values the type label that comes nearest: a wish names the label it means, as a selector does.
func (p *policy) bestWish(wished []string, node *corev1.Node) int64 {
	var best int64
	for _, label := range names.GPUTypeLabels {
		if gpuType := node.Labels[label]; gpuType != "" {
			best = max(best, typeByWish(wished, p.compatible, gpuType))
		}
	}
	return best
}

// usage counts what the pod asks for in the unit it asks for: whole GPUs, else slots on shared ones, else
// MIG slices of all profiles.
func usage(request gpu.Request, node fwk.NodeInfo) (used, asked, capacity int64) {
	allocatable, requested := node.GetAllocatable().GetScalarResources(), node.GetRequested().GetScalarResources()
	switch {
	case request.Whole > 0:
		return requested[names.ResourceGPU], request.Whole, allocatable[names.ResourceGPU]
	case request.Shared > 0:
		return requested[names.ResourceSharedGPU], request.Shared, allocatable[names.ResourceSharedGPU]
	}
	return migSlices(requested), request.MIG, migSlices(allocatable)
}

// migSlices sums the slices of every MIG profile.
func migSlices(resources map[corev1.ResourceName]int64) int64 {
	var sum int64
	for name, count := range resources {
		if strings.HasPrefix(string(name), names.ResourceMIGPrefix) {
			sum += count
		}
	}
	return sum
}

// scoreWithoutGPU keeps pods that need no GPU off the nodes that have some, where their CPU and memory would be missing
// beside a free GPU. Where the strategy tells how much they would be missed, it decides among those nodes.
func (p *Plugin) scoreWithoutGPU(s *state, node fwk.NodeInfo) int64 {
	switch gpus := hasGPUs(node); {
	case s.forecast == nil && gpus:
		return 0
	case s.forecast == nil:
		return full
	case !gpus:
		return noGPUs
	}
	return fragmentation.Rank(p.leastFragmentation(s, node))
}

// hasGPUs reports whether a node is one for GPUs. One whose device plugin is down for a moment still has its type label.
func hasGPUs(node fwk.NodeInfo) bool {
	allocatable := node.GetAllocatable().GetScalarResources()
	return allocatable[names.ResourceGPU] > 0 || allocatable[names.ResourceSharedGPU] > 0 ||
		migSlices(allocatable) > 0 || gpu.TypeOf(node.Node()) != ""
}
