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
	// at is the node of each member.
	at map[types.UID]string
	// within are the nodes for members without a planned node, nil for all. segmentNodes are the nodes for members of segments.
	within sets.Set[string]
	inside map[types.UID]sets.Set[string]
	// loose says that members look for places themselves.
	loose bool
	// shunned are the nodes that another plugin rejected for a member.
	shunned sets.Set[string]
}

// mostShunned is how many nodes other plugins may reject before the members look for places themselves, within what is required. The plan takes
// no account of volumes, ports, and affinity between pods.
const mostShunned = 2

// next returns a new plan on another basis, with the same nodes excluded.
func (l *plan) next(on basis) *plan {
	n := &plan{on: on, at: map[types.UID]string{}}
	if l != nil {
		n.shunned = l.shunned
	}
	return n
}

// allowed returns the nodes that a member may use, nil for all.
func (l *plan) allowed(pod *corev1.Pod) sets.Set[string] {
	switch {
	case l == nil:
		return nil
	case l.at[pod.UID] != "":
		return sets.New(l.at[pod.UID])
	case l.inside[pod.UID] != nil:
		return l.inside[pod.UID]
	}
	return l.within
}

// has reports whether a plan covers a member.
func (l *plan) has(pod *corev1.Pod) bool {
	return l != nil && (l.at[pod.UID] != "" || l.loose)
}

// holds reports whether a plan covers a member and was made on the same basis.
func (l *plan) holds(on basis, pod *corev1.Pod) bool { return l.has(pod) && l.on == on }

// rejected returns the nodes that a plan excludes, and countExcluded how many they are.
func (l *plan) rejected() sets.Set[string] {
	if l == nil {
		return nil
	}
	return l.shunned
}

func (l *plan) shuns() int { return l.rejected().Len() }

// lay plans for the waiting members of a gang, including the pod itself, and stores the plan for its siblings. It returns why there is no plan,
// if that must keep them waiting.
func (p *Plugin) lay(g gang, group *podGroup, m *members, b bearing, on basis) string {
	next := p.places.planOf(g).next(on)
	if !on.holdsOut.IsZero() {
		if why := p.holdOut(g, group, m, b, on); why != "" {
			return why
		}
	}
	why := p.layMost(next, group.layout, group, m, b)
	if why != "" && group.layout.required {
		return why
	}
	next.loose = next.loose || why != "" // the preference allows a wider placement
	p.places.plan(g, next)
	return ""
}

// holdOut returns why a gang waits that could start, but not in one domain. It returns "" if the gang need not wait, or has no room
// anywhere, so that victims may leave for it.
func (p *Plugin) holdOut(g gang, group *podGroup, m *members, b bearing, on basis) string {
	tight := group.layout
	tight.required = true
	why := p.layMost(p.places.planOf(g).next(on), tight, group, m, b)
	near, full := reason.GangDomainFull.Text.In(why)
	segments, short := reason.GangSegmentsFull.Text.In(why)
	if !full && !short || p.layMost(p.places.planOf(g).next(on), group.layout, group, m, b) != "" {
		return ""
	}
	p.wakeAt(g, group, on.holdsOut, anyMember)
	until := on.holdsOut.UTC().Format(time.RFC3339)
	if short {
		return reason.GangSegmentsHoldOut.Text.Of(segments[0], segments[1], until)
	}
	return reason.GangHoldsOut.Text.Of(near[0], len(m.waiting), until)
}

// layMost plans for all waiting members, or for as many as the gang needs.
func (p *Plugin) layMost(next *plan, l layout, group *podGroup, m *members, b bearing) (why string) {
	// Members beyond minMember go with the others if there is room, and are placed on their own otherwise.
	for _, some := range [][]*corev1.Pod{m.waiting, needed(group, m)} {
		if why = p.layOut(next, l, some, m, b); why == "" {
			break
		}
	}
	return why
}

// layOut fills in a plan for some of the waiting members, or returns why there is none.
func (p *Plugin) layOut(into *plan, l layout, some []*corev1.Pod, m *members, b bearing) string {
	levels, at := topology.LevelsTo(l.level)
	of := p.partyOf(l, some, m)
	if of.varied {
		return reason.GangTooVaried.Text.Of(levels[at].Name)
	}
	seats, err := b.seatsOf(of.kinds)
	if err != nil {
		return "" // GPUFilter tells what is wrong with the pod
	}
	s := siteOf(l, seats, b)
	s.seatIn(of)
	standing := s.positions(p.places.nodesOf(m.placed))
	if !into.nominated(s, of, standing) {
		return s.search(into, of, standing)
	}
	return ""
}

// nominated fills in a plan with the nominated nodes of the members, which victims have left for this gang. It returns false if they no longer
// have room there, or the nodes are not in the required domains.
func (l *plan) nominated(s *site, of party, standing []int) bool {
	coming, ok := l.comingTo(s, of.kinds)
	if !ok {
		return false
	}
	all := slices.AppendSeq(slices.Clone(standing), maps.Keys(coming))
	if s.required && s.segments == nil && s.tree.Common(all).Level < s.level || s.required && !s.together(of) {
		return false
	}
	for node, counts := range coming {
		for role, count := range counts {
			beside := slices.Concat(counts[:role], make([]int, len(counts)-role))
			if count > s.room(node, role, beside, change{}) {
				return false
			}
		}
	}
	for role := range of.kinds {
		for _, pod := range of.kinds[role].all {
			l.at[pod.UID] = pod.Status.NominatedNodeName
		}
	}
	return true
}

// comingTo counts the nominated members by node and role. It returns false if a member has no nomination, or an excluded node.
func (l *plan) comingTo(s *site, waiting []kind) (coming map[int][]int, ok bool) {
	coming = map[int][]int{}
	for role := range waiting {
		for _, pod := range waiting[role].all {
			at := pod.Status.NominatedNodeName
			if at == "" || l.shunned.Has(at) {
				return nil, false
			}
			node, known := s.number(at)
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

// enter fills in a plan from a found placement. If other plugins have rejected planned nodes before, members are only bound to the domain.
func (s *site) enter(into *plan, of party, found *gangplan.Plan) {
	into.loose = into.shunned.Len() >= mostShunned
	switch {
	case !into.loose:
		for role := range of.kinds {
			for i, node := range found.Places[role] {
				into.at[of.kinds[role].all[i].UID] = s.infos[node].Node().Name
			}
		}
	case s.required && s.segments != nil:
		into.inside = s.insides(of, found)
	case s.required:
		domain := s.tree.Root
		for _, places := range found.Places {
			if len(places) > 0 {
				domain = s.tree.Of(places[0], s.level)
			}
		}
		into.within = s.names(domain.Nodes)
	}
}

// besides returns the nodes for a member whose gang is complete: those of the domain of the other members. nil means all nodes.
func (p *Plugin) besides(l layout, placed []*corev1.Pod, nodes []fwk.NodeInfo) sets.Set[string] {
	standing := p.places.nodesOf(placed)
	if !l.required || len(standing) == 0 {
		return nil
	}
	s := &site{infos: nodes}
	s.tree, s.level = p.tables.treeOf(l, nodes)
	beside := sets.New[string]()
	for _, node := range s.positions(standing) {
		if domain := s.tree.Of(node, s.level); !beside.Has(nodes[node].Node().Name) {
			beside = beside.Union(s.names(domain.Nodes))
		}
	}
	if beside.Len() == 0 { // the nodes of the members are gone
		return nil
	}
	return beside
}

// byRank sorts members by their index, so that members which communicate most are placed next to each other. The first pod remains among them,
// wherever the list is cut off.
func byRank(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, compareRanks)
	return pods
}

// compareRanks is negative where the first of two members comes before the other.
func compareRanks(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(rankIn(a), rankIn(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// rankIn returns a pod's index in its Job, -1 if there is none. Other pods are sorted by name: web-2 comes before web-10.
func rankIn(pod *corev1.Pod) int {
	text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok { // the most frequent case, in which parsing would allocate an error
		return -1
	}
	if rank, err := strconv.Atoi(text); err == nil {
		return rank
	}
	return -1
}

// plan stores the placement of the members, for those that follow the one that was tried.
func (p *places) plan(g gang, to *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).plan = to
}

// planOf returns the plan of a gang, nil for none. It must not be changed.
func (p *places) planOf(g gang) *plan {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.plan
	}
	return nil
}

// shun excludes a node from further plans, because another plugin rejected it for the member planned there. It returns false if the limit was
// reached.
func (p *places) shun(g gang, node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.plan == nil || r.plan.shunned.Len() >= mostShunned {
		return false
	}
	r.plan = &plan{shunned: sets.New(node).Union(r.plan.shunned)}
	return true
}

// nodesOf returns the nodes of members that have places, as far as they are known.
func (p *places) nodesOf(members []*corev1.Pod) (nodes []string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, pod := range members {
		if node := cmp.Or(pod.Spec.NodeName, p.nodes[pod.UID]); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
