package coscheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// planGang plans for the waiting members of a gang, including the pod itself, and stores the plan for its siblings. It returns why there is no plan,
// if that must keep them waiting.
func (p *Plugin) planGang(g gang, group *podgroup.Group, m *placement.Members, b placement.ClusterSnapshot, on phase.Basis) string {
	next := p.gangs.planOf(g).NextPlan(on)
	if !on.HoldOutUntil.IsZero() {
		if why := p.holdOutReason(g, group, m, b, on); why != "" {
			return why
		}
	}
	why := p.planMostMembers(next, group.Layout, group, m, b)
	if why != "" && group.Layout.Required {
		return why
	}
	next.IsLoose = next.IsLoose || why != "" // the preference allows a wider placement
	p.gangs.setPlan(g, next)
	return ""
}

// holdOutReason returns why a gang waits that could start, but not in one domain. It returns "" if the gang need not wait, or has no room
// anywhere, so that victims may leave for it.
func (p *Plugin) holdOutReason(g gang, group *podgroup.Group, m *placement.Members, b placement.ClusterSnapshot, on phase.Basis) string {
	tight := group.Layout
	tight.Required = true
	why := p.planMostMembers(p.gangs.planOf(g).NextPlan(on), tight, group, m, b)
	near, full := reason.GangDomainFull.Text.ParseValues(why)
	segments, short := reason.GangSegmentsFull.Text.ParseValues(why)
	if !full && !short || p.planMostMembers(p.gangs.planOf(g).NextPlan(on), group.Layout, group, m, b) != "" {
		return ""
	}
	p.gangs.planAttempt(g, phase.BetterPlacement, on.HoldOutUntil)
	until := on.HoldOutUntil.UTC().Format(time.RFC3339)
	if short {
		return reason.GangSegmentsHoldOut.Text.FormatText(segments[0], segments[1], until)
	}
	return reason.GangHoldsOut.Text.FormatText(near[0], len(m.Waiting), until)
}

// planMostMembers plans for all waiting members, or for as many as the gang needs.
func (p *Plugin) planMostMembers(next *placement.Plan, l placement.Layout, group *podgroup.Group, m *placement.Members, b placement.ClusterSnapshot) (why string) {
	// Members beyond minMember go with the others if there is room, and are placed on their own otherwise.
	for _, some := range [][]*corev1.Pod{m.Waiting, placement.NeededMembers(group.Needs(), m)} {
		if why = p.planMembers(next, l, some, m, b); why == "" {
			break
		}
	}
	return why
}

// planMembers fills in a plan for some of the waiting members, or returns why there is none.
func (p *Plugin) planMembers(into *placement.Plan, l placement.Layout, some []*corev1.Pod, m *placement.Members, b placement.ClusterSnapshot) string {
	levels, at := topology.LevelsTo(l.Level)
	of := placement.NewPendingMembers(l, some, m, p.gangs.nodesOf)
	if of.Varied {
		return reason.GangTooVaried.Text.FormatText(levels[at].Name)
	}
	seats, err := b.SlotsFor(of.Classes)
	if err != nil {
		return "" // GPUFilter tells what is wrong with the pod
	}
	s := placement.NewNodeDomain(l, seats, b)
	s.SetSegments(of)
	standing := s.NodeNumbers(p.gangs.nodesOf(m.Placed))
	if !into.UseNominations(s, of, standing) {
		return s.SearchPlan(into, of, standing)
	}
	return ""
}

// siblingDomain returns the nodes for a member whose gang is complete: those of the domain of the other members. nil means all nodes.
func (p *Plugin) siblingDomain(l placement.Layout, placed []*corev1.Pod, nodes []fwk.NodeInfo) sets.Set[string] {
	standing := p.gangs.nodesOf(placed)
	if !l.Required || len(standing) == 0 {
		return nil
	}
	s := &placement.NodeDomain{Infos: nodes}
	s.Tree, s.Level = p.tables.TreeFor(l, nodes)
	beside := sets.New[string]()
	for _, node := range s.NodeNumbers(standing) {
		if domain := s.Tree.NodeDomain(node, s.Level); !beside.Has(nodes[node].Node().Name) {
			beside = beside.Union(s.NamesOf(domain.Nodes))
		}
	}
	if beside.Len() == 0 { // the nodes of the members are gone
		return nil
	}
	return beside
}

// setPlan stores the placement of the members, for those that follow the one that was tried.
func (r *gangs) setPlan(g gang, to *placement.Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ensureState(g).plan = to
}

// planOf returns the plan of a gang, nil for none. It must not be changed.
func (r *gangs) planOf(g gang) *placement.Plan {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.states[g]; ok {
		return s.plan
	}
	return nil
}

// excludeNode excludes a node from further plans, because another plugin rejected it for the member planned there. It returns false if the limit was
// reached.
func (r *gangs) excludeNode(g gang, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.plan == nil || s.plan.Excluded.Len() >= placement.MaxExcludedNodes {
		return false
	}
	s.plan = &placement.Plan{Excluded: sets.New(node).Union(s.plan.Excluded)}
	return true
}
