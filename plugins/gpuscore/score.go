package gpuscore

import (
	"context"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const (
	maxScore = fwk.MaxNodeScore

	// compatibleScore is the score of a type that only comes close to the preferred one.
	compatibleScore = 70
	// unsuitedScore is the score of an interconnect that works, but would suit another pod better.
	unsuitedScore = 50

	// fullShare is all of a node's GPUs in basis points, the unit of shares: fine enough that rounding does not make unequal nodes equal.
	fullShare = 10_000

	// noGPUs is the score of a node without GPUs for a pod that needs none, with the strategy LeastFragmentation: more than any other node.
	noGPUs = 2*maxScore*fragmentation.Fraction + 2
)

// weights are the weights of the parts. Their sum is positive.
type weights struct{ utilization, typeMatch, topology int64 }

// parts are the three values of a node, each 0–100.
type parts struct {
	utilization, typeMatch, topology int64
	// fine is utilization before rounding, in units of fragmentation.Fraction. inUse decides between nodes with equal parts. Both are used by
	// the strategy LeastFragmentation only.
	fine  int64
	inUse bool
}

// setFine sets the part of the strategy LeastFragmentation.
func (p *parts) setFine(value int64, inUse bool) {
	p.fine, p.inUse, p.utilization = value, inUse, value/fragmentation.Fraction
}

// totalWeight is the sum of the weights.
func (w weights) totalWeight() int64 { return w.utilization + w.typeMatch + w.topology }

// weightedMean is the weighted mean of the parts, 0–100.
func (w weights) weightedMean(p parts) int64 {
	return (w.utilization*p.utilization + w.typeMatch*p.typeMatch + w.topology*p.topology) / w.totalWeight()
}

// fineSum is the weighted sum of the parts, which tells nodes apart that [weights.weightedMean] rounds to the same.
func (w weights) fineSum(p parts) int64 {
	return w.utilization*p.fine + (w.typeMatch*p.typeMatch+w.topology*p.topology)*fragmentation.Fraction
}

// nodeWorth returns the score of a node for a pod with GPUs, or, with the strategy LeastFragmentation, a finer number than 0–100.
func (s *state) nodeWorth(p parts) int64 {
	if s.forecasts == nil {
		return s.policy.weights.weightedMean(p)
	}
	return fragmentation.NodeRank(s.policy.weights.fineSum(p), p.inUse)
}

// Score scores a node for the pod, 0–100, independent of the other nodes. The strategy LeastFragmentation has finer values, which NormalizeScore
// maps to that range.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := p.stateOf(cs, pod)
	if err != nil {
		return 0, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if s.wants.Request.IsZero() {
		return p.scoreWithoutGPU(s, node), nil
	}
	parts := p.partsOf(s, node)
	s.scores.Add(node.Node().Name, s.nodeWorth(parts), s.policy.weights.weightedMean(parts), parts.utilization, parts.typeMatch, parts.topology)
	return s.nodeWorth(parts), nil
}

// ScoreExtensions returns the plugin itself.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore keeps absolute scores: stretching them over the given nodes would turn a difference of one point into one of a hundred. Only
// the strategy LeastFragmentation, whose finer values do not fit in 0–100, decides here: the best node alone has 100, the first by name among
// equals, and the others at most 99.
func (p *Plugin) NormalizeScore(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, err := p.stateOf(cs, pod)
	if err != nil || s.forecasts == nil || len(scores) == 0 {
		return nil // Score has reported the error
	}
	needsNone, point := s.wants.Request.IsZero(), fragmentation.NodeRank(s.policy.weights.totalWeight()*fragmentation.Fraction, false)
	if needsNone {
		point = fragmentation.NodeRank(fragmentation.Fraction, false)
	}
	best := p.bestOf(s, scores)
	for i := range scores {
		if i == best || needsNone && scores[i].Score == noGPUs { // nodes without GPUs are equal
			scores[i].Score = maxScore
		} else {
			scores[i].Score = min(scores[i].Score/point, maxScore-1)
		}
	}
	return nil
}

// bestOf returns the position of the highest score. Among equals, nodes without reservations of later jobs come first, then the first by name.
func (p *Plugin) bestOf(s *state, scores fwk.NodeScoreList) int {
	best, spared := 0, p.takesReservedRoomOn(s, scores[0].Name)
	for i := 1; i < len(scores); i++ {
		if scores[i].Score < scores[best].Score {
			continue
		}
		late := p.takesReservedRoomOn(s, scores[i].Name)
		if scores[i].Score > scores[best].Score || spared && !late || spared == late && scores[i].Name < scores[best].Name {
			best, spared = i, late
		}
	}
	return best
}

// takesReservedRoom reports whether the pod would use what a later job has reserved of a node.
func (s *state) takesReservedRoom(node fwk.NodeInfo) bool { return s.reservedBehind.RoomFor(node) == 0 }

func (p *Plugin) takesReservedRoomOn(s *state, name string) bool {
	if s.reservedBehind == nil {
		return false
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	return err == nil && s.takesReservedRoom(node)
}

// partsOf values a node for a pod that asks for GPUs.
func (p *Plugin) partsOf(s *state, node fwk.NodeInfo) parts {
	value := parts{typeMatch: s.policy.typeScore(&s.wants.Types, node.Node())}
	if s.forecasts == nil {
		value.utilization, value.topology = s.utilizationScore(node), p.topologyScore(&s.wants, node)
		return value
	}
	value.setFine(p.leastFragmentation(s, node))
	if s.wants.Request.Whole > 1 {
		value.topology = p.topologyScore(&s.wants, node)
	} else { // the sets of cards that a pod of one would break up are part of what it wastes
		value.topology = byInterconnect(s.wants.Request.Whole, gpu.InterconnectOf(node.Node()))
	}
	return value
}

// topologyScore scores the actual GPUs that the pod would get, if they are known, else the node's interconnect.
func (p *Plugin) topologyScore(w *wants, node fwk.NodeInfo) int64 {
	if p.Devices != nil && w.Demand.NeedsGPUs() {
		if allocator, used, ok := p.Devices.NodeGPUs(node); ok {
			if value, ok := scoreGPUs(allocator, used, &w.Demand); ok {
				return value
			}
		}
	}
	return byInterconnect(w.Request.Whole, gpu.InterconnectOf(node.Node()))
}

// utilizationScore values how a node is filled, by the pod's strategy.
func (s *state) utilizationScore(node fwk.NodeInfo) int64 {
	used, asked, capacity := requestUsage(s.wants.Request, node)
	share := shareAfter(used, asked, capacity)
	switch {
	case s.strategy == configv1.SpreadReplicas:
		as := s.standingOf(node)
		return spreadReplicas(as.bestDomain, as.bestNode, share)
	case s.strategy == configv1.FillHoles && s.wants.Request.Whole > 0:
		return fillHoles(capacity-max(used, 0), asked, share)
	}
	return byShare(s.strategy, s.policy.target, share)
}

// standingOf returns the standing of a node for the pod's job. For a pod without a job all nodes are equal. Without PreScore only the node
// itself is known.
func (s *state) standingOf(node fwk.NodeInfo) replicaStanding {
	switch {
	case s.assumed != nil:
		return *s.assumed
	case s.job.name == "":
		return replicaStanding{bestDomain: true, bestNode: true}
	case s.replicas == nil:
		none := s.job.replicasOn(node) == 0
		return replicaStanding{bestDomain: none, bestNode: none}
	}
	return s.replicas.standingOf(node.Node())
}

// typeScore scores a node's type by the pod's ordered list, else by its preferences. Without either, a node that passed the filters has the full
// score.
func (p *policy) typeScore(types *gpu.Types, node *corev1.Node) int64 {
	switch {
	case len(types.Accepted) > 0:
		return typeByRank(types.Accepted, gpu.TypeOf(node))
	case len(types.Preferred) > 0:
		return p.bestWish(types.Preferred, node)
	}
	return maxScore
}

// bestWish scores the closest type label: a preference names the label it refers to, as a selector does.
func (p *policy) bestWish(wished []string, node *corev1.Node) int64 {
	var best int64
	for _, label := range names.GPUTypeLabels {
		if gpuType := node.Labels[label]; gpuType != "" {
			best = max(best, typeByWish(wished, p.compatible, gpuType))
		}
	}
	return best
}

// requestUsage returns the usage in the unit that the pod requests: whole GPUs, else slots on shared ones, else MIG slices of all profiles.
func requestUsage(request gpu.Request, node fwk.NodeInfo) (used, asked, capacity int64) {
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

// scoreWithoutGPU keeps pods that need no GPU off GPU nodes, where their CPU and memory would be missing beside a free GPU. If the strategy
// tells how much they would be missed, it decides among those nodes.
func (p *Plugin) scoreWithoutGPU(s *state, node fwk.NodeInfo) int64 {
	switch gpus := hasGPUs(node); {
	case s.forecasts == nil && gpus:
		return 0
	case s.forecasts == nil:
		return maxScore
	case !gpus:
		return noGPUs
	}
	return fragmentation.NodeRank(p.leastFragmentation(s, node))
}

// hasGPUs reports whether a node is a GPU node. A node whose device plugin is temporarily down still has its type label.
func hasGPUs(node fwk.NodeInfo) bool {
	allocatable := node.GetAllocatable().GetScalarResources()
	return allocatable[names.ResourceGPU] > 0 || allocatable[names.ResourceSharedGPU] > 0 ||
		migSlices(allocatable) > 0 || gpu.TypeOf(node.Node()) != ""
}

// shareAfter is the share of a node's GPUs that is busy once the pod is there, in basis points. Counts that
// contradict each other, such as more used than there are, give a full or an empty node.
func shareAfter(used, asked, capacity int64) int64 {
	if capacity <= 0 {
		return fullShare
	}
	used = min(max(used, 0), capacity)
	busy := used + min(max(asked, 0), capacity-used)
	high, low := bits.Mul64(uint64(busy), fullShare)
	share, _ := bits.Div64(high, low, uint64(capacity))
	return int64(share)
}

// typeByRank scores the i-th of n types that a pod accepts, in its order: full for the first, then evenly less. A type that is not in the list
// scores 0.
func typeByRank(accepted []string, gpuType string) int64 {
	i := slices.Index(accepted, gpuType)
	if i < 0 {
		return 0
	}
	return maxScore - maxScore*int64(i)/int64(len(accepted))
}

// typeByWish scores a type for a pod with preferences: full for the first preference, less for later ones, but always more than for a type that
// is merely compatible with one.
func typeByWish(wished []string, compatibleTypes map[string][]string, gpuType string) int64 {
	if i := slices.Index(wished, gpuType); i >= 0 {
		return maxScore - (maxScore-compatibleScore)*int64(i)/int64(len(wished))
	}
	for _, wish := range wished {
		if slices.Contains(compatibleTypes[wish], gpuType) {
			return compatibleScore
		}
	}
	return 0
}

// byInterconnect scores an interconnect for a number of whole GPUs: pods of several prefer NVLink, and pods of one leave it to them.
func byInterconnect(gpus int64, interconnect string) int64 {
	if (gpus > 1) == (interconnect == names.InterconnectNVLink) {
		return maxScore
	}
	return unsuitedScore
}
