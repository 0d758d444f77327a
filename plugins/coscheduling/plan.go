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

// plan is where the members of a gang are to go that has a layout: the first that is tried plans for all.
type plan struct {
	on basis
	// at is the node of each member.
	at map[types.UID]string
	// within are the nodes that members may go to which have no node of their own, nil for all; inside those of the members of
	// segments.
	within sets.Set[string]
	inside map[types.UID]sets.Set[string]
	// loose says that members look for places themselves.
	loose bool
	// shunned are the nodes that another plugin rejected for a member.
	shunned sets.Set[string]
}

// mostShunned is how many nodes other plugins may reject before the members look for places themselves, within what is
// required: the plan knows nothing of volumes, ports, and affinity between pods.
const mostShunned = 2

// next returns the plan that is made when there are other grounds than for this one: with the same nodes left out.
func (l *plan) next(on basis) *plan {
	n := &plan{on: on, at: map[types.UID]string{}}
	if l != nil {
		n.shunned = l.shunned
	}
	return n
}

// allowed are the nodes that a member may go to, nil for all.
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

// has says whether a plan was made with a member in mind.
func (l *plan) has(pod *corev1.Pod) bool {
	return l != nil && (l.at[pod.UID] != "" || l.loose)
}

// holds says whether a plan with a member in mind was made on the same grounds.
func (l *plan) holds(on basis, pod *corev1.Pod) bool { return l.has(pod) && l.on == on }

// rejected are the nodes that a plan leaves out, and shuns is how many.
func (l *plan) rejected() sets.Set[string] {
	if l == nil {
		return nil
	}
	return l.shunned
}

func (l *plan) shuns() int { return l.rejected().Len() }

// lay plans for the members of a gang that wait, the pod itself among them, and keeps the plan for its siblings. It returns
// why there is none, if that has to keep them waiting.
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
	next.loose = next.loose || why != "" // as close as it can get is what was preferred
	p.places.plan(g, next)
	return ""
}

// holdOut returns why a gang waits that could start, but not in one domain: "" where it need not wait, or there is no room
// for it anywhere, so that others may leave for it.
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

// layMost plans for all members that wait, or for as many as it takes.
func (p *Plugin) layMost(next *plan, l layout, group *podGroup, m *members, b bearing) (why string) {
	// Members that are more than it takes go with the others where there is room, and else for themselves.
	for _, some := range [][]*corev1.Pod{m.waiting, needed(group, m)} {
		if why = p.layOut(next, l, some, m, b); why == "" {
			break
		}
	}
	return why
}

// layOut fills a plan in for some of the members that wait, or says why there is none.
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

// nominated fills a plan in with the nodes that members are nominated for, since others left them for this gang. It reports
// false where there is no room for them any more, or not in the domains that have to hold them.
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

// comingTo counts by node and role the members that are nominated for it. It reports false where one is for none, or for one
// that it may not go to.
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

// enter writes a plan down. When other plugins have rejected nodes of plans before, members have the domain alone.
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

// besides returns the nodes that a member may go to whose gang stands: those of the domain that the others lie in. nil are
// all.
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
	if beside.Len() == 0 { // their nodes are gone
		return nil
	}
	return beside
}

// byRank sorts members by their index, so that those which talk to each other most lie next to each other. The first pod
// stays among them, wherever they are cut off.
func byRank(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, compareRanks)
	return pods
}

// compareRanks is negative where the first of two members comes before the other.
func compareRanks(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(rankIn(a), rankIn(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// rankIn is a pod's index in its Job, -1 where there is none. Others are told by their names: web-2 comes before web-10.
func rankIn(pod *corev1.Pod) int {
	text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok { // as of most pods that are sorted: an error is made for each that is not read
		return -1
	}
	if rank, err := strconv.Atoi(text); err == nil {
		return rank
	}
	return -1
}

// plan keeps where members are to go, for those that come after the one that was tried.
func (p *places) plan(g gang, to *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).plan = to
}

// planOf returns the plan for a gang, nil for none. It is read only.
func (p *places) planOf(g gang) *plan {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.plan
	}
	return nil
}

// shun leaves a node out of further plans, that another plugin rejected for the member it was planned for. It reports false
// when there have been enough.
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
