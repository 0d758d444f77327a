package coscheduling

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// plan is the placement of a gang with a layout. The first member that is tried plans for all.
type plan struct {
	on basis
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
func (l *plan) nextPlan(on basis) *plan {
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
func (l *plan) isCurrentFor(on basis, pod *corev1.Pod) bool { return l.includesPod(pod) && l.on == on }

// excludedNodes returns the nodes that a plan excludes, and countExcluded how many they are.
func (l *plan) excludedNodes() sets.Set[string] {
	if l == nil {
		return nil
	}
	return l.excluded
}

func (l *plan) countExcluded() int { return l.excludedNodes().Len() }

// planGang plans for the waiting members of a gang, including the pod itself, and stores the plan for its siblings. It returns why there is no plan,
// if that must keep them waiting.
func (p *Plugin) planGang(g gang, group *podGroup, m *members, b clusterSnapshot, on basis) string {
	next := p.gangStates.planOf(g).nextPlan(on)
	if !on.holdOutUntil.IsZero() {
		if why := p.holdOutReason(g, group, m, b, on); why != "" {
			return why
		}
	}
	why := p.planMostMembers(next, group.layout, group, m, b)
	if why != "" && group.layout.required {
		return why
	}
	next.isLoose = next.isLoose || why != "" // the preference allows a wider placement
	p.gangStates.setPlan(g, next)
	return ""
}

// holdOutReason returns why a gang waits that could start, but not in one domain. It returns "" if the gang need not wait, or has no room
// anywhere, so that victims may leave for it.
func (p *Plugin) holdOutReason(g gang, group *podGroup, m *members, b clusterSnapshot, on basis) string {
	tight := group.layout
	tight.required = true
	why := p.planMostMembers(p.gangStates.planOf(g).nextPlan(on), tight, group, m, b)
	near, full := reason.GangDomainFull.Text.ParseValues(why)
	segments, short := reason.GangSegmentsFull.Text.ParseValues(why)
	if !full && !short || p.planMostMembers(p.gangStates.planOf(g).nextPlan(on), group.layout, group, m, b) != "" {
		return ""
	}
	p.activateAt(g, group, on.holdOutUntil, anyMember)
	until := on.holdOutUntil.UTC().Format(time.RFC3339)
	if short {
		return reason.GangSegmentsHoldOut.Text.FormatText(segments[0], segments[1], until)
	}
	return reason.GangHoldsOut.Text.FormatText(near[0], len(m.waiting), until)
}

// planMostMembers plans for all waiting members, or for as many as the gang needs.
func (p *Plugin) planMostMembers(next *plan, l layout, group *podGroup, m *members, b clusterSnapshot) (why string) {
	// Members beyond minMember go with the others if there is room, and are placed on their own otherwise.
	for _, some := range [][]*corev1.Pod{m.waiting, neededMembers(group, m)} {
		if why = p.planMembers(next, l, some, m, b); why == "" {
			break
		}
	}
	return why
}

// planMembers fills in a plan for some of the waiting members, or returns why there is none.
func (p *Plugin) planMembers(into *plan, l layout, some []*corev1.Pod, m *members, b clusterSnapshot) string {
	levels, at := topology.LevelsTo(l.level)
	of := p.newPendingMembers(l, some, m)
	if of.varied {
		return reason.GangTooVaried.Text.FormatText(levels[at].Name)
	}
	seats, err := b.slotsFor(of.classes)
	if err != nil {
		return "" // GPUFilter tells what is wrong with the pod
	}
	s := newNodeDomain(l, seats, b)
	s.setSegments(of)
	standing := s.nodeNumbers(p.gangStates.nodesOf(m.placed))
	if !into.useNominations(s, of, standing) {
		return s.searchPlan(into, of, standing)
	}
	return ""
}

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

// siblingDomain returns the nodes for a member whose gang is complete: those of the domain of the other members. nil means all nodes.
func (p *Plugin) siblingDomain(l layout, placed []*corev1.Pod, nodes []fwk.NodeInfo) sets.Set[string] {
	standing := p.gangStates.nodesOf(placed)
	if !l.required || len(standing) == 0 {
		return nil
	}
	s := &nodeDomain{infos: nodes}
	s.tree, s.level = p.tables.treeFor(l, nodes)
	beside := sets.New[string]()
	for _, node := range s.nodeNumbers(standing) {
		if domain := s.tree.NodeDomain(node, s.level); !beside.Has(nodes[node].Node().Name) {
			beside = beside.Union(s.namesOf(domain.Nodes))
		}
	}
	if beside.Len() == 0 { // the nodes of the members are gone
		return nil
	}
	return beside
}

// sortByIndex sorts members by their index, so that members which communicate most are placed next to each other. The first pod remains among them,
// wherever the list is cut off.
func sortByIndex(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, compareIndexes)
	return pods
}

// compareIndexes is negative where the first of two members comes before the other.
func compareIndexes(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// completionIndex returns a pod's index in its Job, -1 if there is none. Other pods are sorted by name: web-2 comes before web-10.
func completionIndex(pod *corev1.Pod) int {
	text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok { // the most frequent case, in which parsing would allocate an error
		return -1
	}
	if rank, err := strconv.Atoi(text); err == nil {
		return rank
	}
	return -1
}

// setPlan stores the placement of the members, for those that follow the one that was tried.
func (p *gangStates) setPlan(g gang, to *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).plan = to
}

// planOf returns the plan of a gang, nil for none. It must not be changed.
func (p *gangStates) planOf(g gang) *plan {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.plan
	}
	return nil
}

// excludeNode excludes a node from further plans, because another plugin rejected it for the member planned there. It returns false if the limit was
// reached.
func (p *gangStates) excludeNode(g gang, node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if r.plan == nil || r.plan.excluded.Len() >= maxExcludedNodes {
		return false
	}
	r.plan = &plan{excluded: sets.New(node).Union(r.plan.excluded)}
	return true
}

// nodesOf returns the nodes of members that have places, as far as they are known.
func (p *gangStates) nodesOf(members []*corev1.Pod) (nodes []string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, pod := range members {
		if node := cmp.Or(pod.Spec.NodeName, p.nodes[pod.UID]); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
