package coscheduling

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// preemptForGang evicts pods of lower priority for a gang without room: as many as needed, and none unless all members get a place. It returns the
// node for the pod, or why no pod is evicted, "" if no reason needs to be shown.
//
// The decision covers the whole gang at once. If it were made per member, as kube-scheduler does for pods, a gang that lacks one node would
// evict once for each member, and a gang that cannot start for another reason would do so over and over.
func (p *Plugin) preemptForGang(ctx context.Context, g gang, group *podgroup.Group, m *placement.Members, pod *corev1.Pod, refused fwk.NodeToStatusReader) (node, why string) {
	if m.MissingReason(group.MinMember) != "" || len(m.Placed) > m.Bound || !group.IsCoveredBy(m) {
		p.nominateMembers(m.Waiting, nil)
		return "", ""
	}
	// Without a node the result of kube-scheduler's own preemption, which runs first, would stand: that the pod goes nowhere.
	if p.gangs.stateOf(g).AwaitsDepartures(p.now()) {
		return pod.Status.NominatedNodeName, ""
	}
	node, why, due := p.awaitNotified(g, pod)
	if why != "" {
		return node, why
	}
	if due == nil {
		if holdsBack, why := p.isPreemptionHeld(g, group, m); holdsBack {
			return "", why
		}
	}
	return p.attemptPreemption(ctx, g, group, m, pod, due, refused)
}

// isPreemptionHeld reports whether preemption for a gang is held for now, and why, "" if no reason needs to be shown.
func (p *Plugin) isPreemptionHeld(g gang, group *podgroup.Group, m *placement.Members) (holdsBack bool, why string) {
	now := p.now()
	p.restoreBackoff(g, m.Waiting...)
	state := p.gangs.stateOf(g)
	if holds, why := state.PreemptionHold(now); holds {
		p.nominateMembers(m.Waiting, nil) // its nominations would keep other pods from nodes that it does not use
		p.planProtectionRetry(g, now)
		return true, why
	}
	request := p.quotaRequest(group, m)
	if state.LastVerdict().IsChoice || !p.mayEvict(m.Waiting) && !request.IsEntitled() || overQuotaReason(request) != "" {
		return true, ""
	}
	if state.IsBackingOff(now) || state.IsUnhelpful(now) {
		p.planProtectionRetry(g, now)
		return true, state.ProtectionReason()
	}
	if turn := p.gangs.nextSearchTime(g, now); turn.After(now) {
		p.gangs.planAttempt(g, phase.SearchTurn, turn)
		return true, state.ProtectionReason()
	}
	return false, ""
}

// attemptPreemption evicts the pods that make room for a gang. Only the pods in due may be evicted, nil for all. It returns what preemptForGang
// returns.
func (p *Plugin) attemptPreemption(ctx context.Context, g gang, group *podgroup.Group, m *placement.Members, pod *corev1.Pod, due sets.Set[types.UID], refused fwk.NodeToStatusReader) (node, why string) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "", "" // it is in memory
	}
	b := p.newSnapshot(nodes)
	b.KeptWhole = keptWhole(nodes, refused)
	request := p.quotaRequest(group, m)
	b.Request = request
	b.Kept, _ = p.nominatedAsks(g, group, m)
	move, setback := p.findPreemption(ctx, g, group, m, b, due)
	if move != nil {
		p.gangs.endSearches(g)
	} else if !p.replay {
		p.gangs.backOffSearch(g, setback.podsSearched)
	}
	switch {
	case move == nil && due != nil:
		p.abandonNotices(g, m)
		return "", ""
	case move == nil && setback.unfinished:
		p.nominateMembers(m.Waiting, nil)
		p.gangs.planAttempt(g, phase.SearchTurn, p.gangs.nextSearchTime(g, p.now())) // the search continues then
		return "", ""
	case move == nil:
		p.nominateMembers(m.Waiting, nil)
		return "", p.backOffGang(g, setback)
	case len(move.victims) == 0:
		p.withdrawNotices(preemptorKey(g))
		return p.awaitTerminatingPods(move, m, pod), ""
	}
	p.quotas.HoldForNominees(m.Waiting, move.to)
	return move.to[pod.UID], p.evictOrNotify(g, move, m.Waiting, pod, due != nil)
}

// awaitTerminatingPods returns the node for a pod whose gang needs no further victims, "" for none.
func (p *Plugin) awaitTerminatingPods(move *preemptionCandidate, m *placement.Members, pod *corev1.Pod) string {
	if !move.awaitsTermination { // the gang is not kept out by the pods on the nodes
		p.nominateMembers(m.Waiting, nil)
		return ""
	}
	p.keepNominated(m.Waiting, move.to)
	if pod.Status.NominatedNodeName == "" {
		return ""
	}
	return move.to[pod.UID]
}

// mayEvict reports whether the preemption policy of the members allows evictions.
func (p *Plugin) mayEvict(waiting []*corev1.Pod) bool {
	return !slices.ContainsFunc(waiting, func(pod *corev1.Pod) bool {
		return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
	})
}
