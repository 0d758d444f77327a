package placement

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// Plan is the placement of a gang with a layout. The first member that is tried plans for all.
type Plan struct {
	on phase.Basis
	// nodeByPod is the node of each member.
	nodeByPod map[types.UID]string
	// allowed are the nodes for members without a planned node, nil for all. segmentNodes are the nodes for members of segments.
	allowed      sets.Set[string]
	segmentNodes map[types.UID]sets.Set[string]
	// IsLoose says that members look for places themselves.
	IsLoose bool
	// Excluded are the nodes that another plugin rejected for a member.
	Excluded sets.Set[string]
}

// MaxExcludedNodes is how many nodes other plugins may reject before the members look for places themselves, within what is required. The plan takes
// no account of volumes, ports, and affinity between pods.
const MaxExcludedNodes = 2

// NextPlan returns a new plan on another basis, with the same nodes excluded.
func (l *Plan) NextPlan(on phase.Basis) *Plan {
	n := &Plan{on: on, nodeByPod: map[types.UID]string{}}
	if l != nil {
		n.Excluded = l.Excluded
	}
	return n
}

// AllowedNodes returns the nodes that a member may use, nil for all.
func (l *Plan) AllowedNodes(pod *corev1.Pod) sets.Set[string] {
	switch {
	case l == nil:
		return nil
	case l.nodeByPod[pod.UID] != "":
		return sets.New(l.nodeByPod[pod.UID])
	case l.segmentNodes[pod.UID] != nil:
		return l.segmentNodes[pod.UID]
	}
	return l.allowed
}

// IncludesPod reports whether a plan covers a member.
func (l *Plan) IncludesPod(pod *corev1.Pod) bool {
	return l != nil && (l.nodeByPod[pod.UID] != "" || l.IsLoose)
}

// IsCurrentFor reports whether a plan covers a member and was made on the same basis.
func (l *Plan) IsCurrentFor(on phase.Basis, pod *corev1.Pod) bool {
	return l.IncludesPod(pod) && l.on == on
}

// ExcludedNodes returns the nodes that a plan excludes, and countExcluded how many they are.
func (l *Plan) ExcludedNodes() sets.Set[string] {
	if l == nil {
		return nil
	}
	return l.Excluded
}

// CountExcluded returns how many nodes a plan excludes.
func (l *Plan) CountExcluded() int { return l.ExcludedNodes().Len() }

// UseNominations fills in a plan with the nominated nodes of the members, which victims have left for this gang. It returns false if they no longer
// have room there, or the nodes are not in the required domains.
func (l *Plan) UseNominations(s *NodeDomain, of PendingMembers, standing []int) bool {
	coming, ok := l.countNominated(s, of.Classes)
	if !ok {
		return false
	}
	all := slices.AppendSeq(slices.Clone(standing), maps.Keys(coming))
	if s.Required && s.Segments == nil && s.Tree.CommonDomain(all).Level < s.Level || s.Required && !s.areSegmentsTogether(of) {
		return false
	}
	for node, counts := range coming {
		for role, count := range counts {
			beside := slices.Concat(counts[:role], make([]int, len(counts)-role))
			if count > s.CapacityBeside(node, role, beside, NodeChange{}) {
				return false
			}
		}
	}
	for role := range of.Classes {
		for _, pod := range of.Classes[role].Pods {
			l.nodeByPod[pod.UID] = pod.Status.NominatedNodeName
		}
	}
	return true
}

// countNominated counts the nominated members by node and role. It returns false if a member has no nomination, or an excluded node.
func (l *Plan) countNominated(s *NodeDomain, waiting []PodClass) (coming map[int][]int, ok bool) {
	coming = map[int][]int{}
	for role := range waiting {
		for _, pod := range waiting[role].Pods {
			at := pod.Status.NominatedNodeName
			if at == "" || l.Excluded.Has(at) {
				return nil, false
			}
			node, known := s.NodeNumber(at)
			if !known {
				return nil, false
			}
			if coming[node] == nil {
				coming[node] = make([]int, len(waiting))
			}
			coming[node][role]++
		}
	}
	return coming, true
}

// fillPlan fills in a plan from a found placement. If other plugins have rejected planned nodes before, members are only bound to the domain.
func (s *NodeDomain) fillPlan(into *Plan, of PendingMembers, found *gangplan.Plan) {
	into.IsLoose = into.Excluded.Len() >= MaxExcludedNodes
	switch {
	case !into.IsLoose:
		for role := range of.Classes {
			for i, node := range found.Places[role] {
				into.nodeByPod[of.Classes[role].Pods[i].UID] = s.Infos[node].Node().Name
			}
		}
	case s.Required && s.Segments != nil:
		into.segmentNodes = s.segmentDomains(of, found)
	case s.Required:
		domain := s.Tree.Root
		for _, places := range found.Places {
			if len(places) > 0 {
				domain = s.Tree.NodeDomain(places[0], s.Level)
			}
		}
		into.allowed = s.NamesOf(domain.Nodes)
	}
}
