package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// segmentDomain returns the nodes for a member of a complete gang, nil for all, or why there are none: the nodes of the domain of its segment.
// A segment without a domain gets the tightest domain with room for all of it. If the level is only preferred, a member without room there goes
// anywhere.
func (p *Plugin) segmentDomain(g gang, group *podgroup.Group, m *placement.Members, nodes []fwk.NodeInfo) (beside sets.Set[string], why string) {
	pod, l := m.Waiting[0], group.Layout
	if p.gangs.isOutsideDomain(g, pod.UID) {
		return nil, ""
	}
	seating := m.SegmentsFor(l)
	own, mates := []*corev1.Pod{pod}, seating.Placed[seating.SegmentByPod[pod.UID]]
	if l.Required {
		if beside := p.siblingDomain(l, mates, nodes); beside != nil {
			return beside, ""
		}
	}
	if len(mates) == 0 {
		own = slices.DeleteFunc(slices.Clone(m.Waiting), func(other *corev1.Pod) bool { return seating.SegmentByPod[other.UID] != seating.SegmentByPod[pod.UID] })
	}
	if beside, why = p.domainFor(g, group, own, m, nodes); l.Required {
		return beside, why
	}
	return beside, ""
}

// domainFor returns the nodes of the domain that has room for some members of a segment now, or for most of them, or why there is none.
func (p *Plugin) domainFor(g gang, group *podgroup.Group, own []*corev1.Pod, m *placement.Members, nodes []fwk.NodeInfo) (sets.Set[string], string) {
	l := group.Layout
	l.Required = true
	of := placement.NewPendingMembers(l, own, m, p.gangs.nodesOf)
	if of.Varied {
		return nil, reason.GangTooVaried.Text.FormatText(l.Level)
	}
	b := p.newSnapshot(nodes)
	b.Kept, _ = p.nominatedAsks(g, group, m)
	seats, err := b.SlotsFor(of.Classes)
	if err != nil {
		return nil, "" // GPUFilter tells what is wrong with the pod
	}
	s := placement.NewNodeDomain(l, seats, b)
	s.SetSegments(of)
	problem := s.NewProblem(of.Classes, s.NodeNumbers(p.gangs.nodesOf(m.Placed)), s.FreeCapacity)
	plan, miss := gangplan.Make(problem)
	switch {
	case plan != nil:
		return s.NamesOf(s.Tree.NodeDomain(plan.Places[0][0], s.Level).Nodes), ""
	case group.Layout.Required && miss.Room > 0:
		return s.NamesOf(miss.Domain.Nodes), ""
	}
	return nil, s.MissingReason(of.Classes, problem.Standing, s.FreeCapacity)
}

// isOutsideDomain reports whether a member was rejected in the domain of its segment, if that is only preferred. markOutsideDomain records it.
func (r *gangs) isOutsideDomain(g gang, pod types.UID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.states[g]
	return ok && s.outsideDomain.Has(pod)
}

func (r *gangs) markOutsideDomain(g gang, pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.outsideDomain == nil || s.outsideDomain.Len() >= placement.MaxMembers {
		s.outsideDomain = sets.New[types.UID]()
	}
	s.outsideDomain.Insert(pod)
}
