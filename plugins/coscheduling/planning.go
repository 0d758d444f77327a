package coscheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// planGang plans for the waiting members of a gang, including the pod itself, and stores the plan for its siblings. It returns why there is no plan,
// if that must keep them waiting.
func (p *Plugin) planGang(g gang, group *podGroup, m *members, b clusterSnapshot, on phase.Basis) string {
	next := p.gangs.planOf(g).nextPlan(on)
	if !on.HoldOutUntil.IsZero() {
		if why := p.holdOutReason(g, group, m, b, on); why != "" {
			return why
		}
	}
	why := p.planMostMembers(next, group.layout, group, m, b)
	if why != "" && group.layout.required {
		return why
	}
	next.isLoose = next.isLoose || why != "" // the preference allows a wider placement
	p.gangs.setPlan(g, next)
	return ""
}

// holdOutReason returns why a gang waits that could start, but not in one domain. It returns "" if the gang need not wait, or has no room
// anywhere, so that victims may leave for it.
func (p *Plugin) holdOutReason(g gang, group *podGroup, m *members, b clusterSnapshot, on phase.Basis) string {
	tight := group.layout
	tight.required = true
	why := p.planMostMembers(p.gangs.planOf(g).nextPlan(on), tight, group, m, b)
	near, full := reason.GangDomainFull.Text.ParseValues(why)
	segments, short := reason.GangSegmentsFull.Text.ParseValues(why)
	if !full && !short || p.planMostMembers(p.gangs.planOf(g).nextPlan(on), group.layout, group, m, b) != "" {
		return ""
	}
	p.gangs.planAttempt(g, phase.BetterPlacement, on.HoldOutUntil)
	until := on.HoldOutUntil.UTC().Format(time.RFC3339)
	if short {
		return reason.GangSegmentsHoldOut.Text.FormatText(segments[0], segments[1], until)
	}
	return reason.GangHoldsOut.Text.FormatText(near[0], len(m.waiting), until)
}

// planMostMembers plans for all waiting members, or for as many as the gang needs.
func (p *Plugin) planMostMembers(next *plan, l layout, group *podGroup, m *members, b clusterSnapshot) (why string) {
	// Members beyond minMember go with the others if there is room, and are placed on their own otherwise.
	for _, some := range [][]*corev1.Pod{m.waiting, neededMembers(group.needs(), m)} {
		if why = p.planMembers(next, l, some, m, b); why == "" {
			break
		}
	}
	return why
}

// planMembers fills in a plan for some of the waiting members, or returns why there is none.
func (p *Plugin) planMembers(into *plan, l layout, some []*corev1.Pod, m *members, b clusterSnapshot) string {
	levels, at := topology.LevelsTo(l.level)
	of := newPendingMembers(l, some, m, p.gangs.nodesOf)
	if of.varied {
		return reason.GangTooVaried.Text.FormatText(levels[at].Name)
	}
	seats, err := b.slotsFor(of.classes)
	if err != nil {
		return "" // GPUFilter tells what is wrong with the pod
	}
	s := newNodeDomain(l, seats, b)
	s.setSegments(of)
	standing := s.nodeNumbers(p.gangs.nodesOf(m.placed))
	if !into.useNominations(s, of, standing) {
		return s.searchPlan(into, of, standing)
	}
	return ""
}

// siblingDomain returns the nodes for a member whose gang is complete: those of the domain of the other members. nil means all nodes.
func (p *Plugin) siblingDomain(l layout, placed []*corev1.Pod, nodes []fwk.NodeInfo) sets.Set[string] {
	standing := p.gangs.nodesOf(placed)
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

// setPlan stores the placement of the members, for those that follow the one that was tried.
func (r *gangs) setPlan(g gang, to *plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ensureState(g).plan = to
}

// planOf returns the plan of a gang, nil for none. It must not be changed.
func (r *gangs) planOf(g gang) *plan {
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
	if s.plan == nil || s.plan.excluded.Len() >= maxExcludedNodes {
		return false
	}
	s.plan = &plan{excluded: sets.New(node).Union(s.plan.excluded)}
	return true
}
