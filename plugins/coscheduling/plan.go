package coscheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// plan is the placement of a gang with a layout. The first member that is tried plans for all.
type plan struct {
	on phase.Basis
	// nodeByPod is the node of each member.
	nodeByPod map[types.UID]string
	// allowed are the nodes for members without a planned node, nil for all. segmentNodes are the nodes for members of segments.
	allowed      sets.Set[string]
	segmentNodes map[types.UID]sets.Set[string]
	// isLoose says that members look for places themselves.
	isLoose bool
	// excluded are the nodes that another plugin rejected for a member.
	excluded sets.Set[string]
}

// maxExcludedNodes is how many nodes other plugins may reject before the members look for places themselves, within what is required. The plan takes
// no account of volumes, ports, and affinity between pods.
const maxExcludedNodes = 2

// nextPlan returns a new plan on another basis, with the same nodes excluded.
func (l *plan) nextPlan(on phase.Basis) *plan {
	n := &plan{on: on, nodeByPod: map[types.UID]string{}}
	if l != nil {
		n.excluded = l.excluded
	}
	return n
}

// allowedNodes returns the nodes that a member may use, nil for all.
func (l *plan) allowedNodes(pod *corev1.Pod) sets.Set[string] {
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

// includesPod reports whether a plan covers a member.
func (l *plan) includesPod(pod *corev1.Pod) bool {
	return l != nil && (l.nodeByPod[pod.UID] != "" || l.isLoose)
}

// isCurrentFor reports whether a plan covers a member and was made on the same basis.
func (l *plan) isCurrentFor(on phase.Basis, pod *corev1.Pod) bool {
	return l.includesPod(pod) && l.on == on
}

// excludedNodes returns the nodes that a plan excludes, and countExcluded how many they are.
func (l *plan) excludedNodes() sets.Set[string] {
	if l == nil {
		return nil
	}
	return l.excluded
}

func (l *plan) countExcluded() int { return l.excludedNodes().Len() }

// useNominations fills in a plan with the nominated nodes of the members, which victims have left for this gang. It returns false if they no longer
// have room there, or the nodes are not in the required domains.
func (l *plan) useNominations(s *nodeDomain, of pendingMembers, standing []int) bool {
	coming, ok := l.countNominated(s, of.classes)
	if !ok {
		return false
	}
	all := slices.AppendSeq(slices.Clone(standing), maps.Keys(coming))
	if s.required && s.segments == nil && s.tree.CommonDomain(all).Level < s.level || s.required && !s.areSegmentsTogether(of) {
		return false
	}
	for node, counts := range coming {
		for role, count := range counts {
			beside := slices.Concat(counts[:role], make([]int, len(counts)-role))
			if count > s.capacityBeside(node, role, beside, nodeChange{}) {
				return false
			}
		}
	}
	for role := range of.classes {
		for _, pod := range of.classes[role].pods {
			l.nodeByPod[pod.UID] = pod.Status.NominatedNodeName
		}
	}
	return true
}

// countNominated counts the nominated members by node and role. It returns false if a member has no nomination, or an excluded node.
func (l *plan) countNominated(s *nodeDomain, waiting []podClass) (coming map[int][]int, ok bool) {
	coming = map[int][]int{}
	for role := range waiting {
		for _, pod := range waiting[role].pods {
			at := pod.Status.NominatedNodeName
			if at == "" || l.excluded.Has(at) {
				return nil, false
			}
			node, known := s.nodeNumber(at)
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
func (s *nodeDomain) fillPlan(into *plan, of pendingMembers, found *gangplan.Plan) {
	into.isLoose = into.excluded.Len() >= maxExcludedNodes
	switch {
	case !into.isLoose:
		for role := range of.classes {
			for i, node := range found.Places[role] {
				into.nodeByPod[of.classes[role].pods[i].UID] = s.infos[node].Node().Name
			}
		}
	case s.required && s.segments != nil:
		into.segmentNodes = s.segmentDomains(of, found)
	case s.required:
		domain := s.tree.Root
		for _, places := range found.Places {
			if len(places) > 0 {
				domain = s.tree.NodeDomain(places[0], s.level)
			}
		}
		into.allowed = s.namesOf(domain.Nodes)
	}
}
