package coscheduling

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// makeRoom evicts pods of lower priority for a gang without room: as many as needed, and none unless all members get a place. It returns the
// node for the pod, or why no pod is evicted, "" if no reason needs to be shown.
//
// The decision covers the whole gang at once. If it were made per member, as kube-scheduler does for pods, a gang that lacks one node would
// evict once for each member, and a gang that cannot start for another reason would do so over and over.
func (p *Plugin) makeRoom(ctx context.Context, g gang, group *podGroup, m *members, pod *corev1.Pod, refused fwk.NodeToStatusReader) (node, why string) {
	if m.missing(group.minMember) != "" || len(m.placed) > m.bound || len(group.minResources) > 0 {
		p.nominate(m.waiting, nil)
		return "", ""
	}
	// Without a node the result of kube-scheduler's own preemption, which runs first, would stand: that the pod goes nowhere.
	if p.places.settles(g, p.now()) {
		return pod.Status.NominatedNodeName, ""
	}
	node, why, due := p.waitsFor(g, pod)
	if why != "" {
		return node, why
	}
	if due == nil {
		if holdsBack, why := p.holdsBack(g, group, m); holdsBack {
			return "", why
		}
	}
	return p.plead(ctx, g, group, m, pod, due, refused)
}

// holdsBack reports whether preemption for a gang is held for now, and why, "" if no reason needs to be shown.
func (p *Plugin) holdsBack(g gang, group *podGroup, m *members) (holdsBack bool, why string) {
	now := p.now()
	p.recall(g, m.waiting...)
	if abstains, why := p.places.abstains(g, now); abstains {
		p.nominate(m.waiting, nil) // its nominations would keep other pods from nodes that it does not use
		p.staysAwake(g, group, now)
		return true, why
	}
	request := p.requestOf(group, m)
	if p.places.waitsByChoice(g) || !p.mayEvict(m.waiting) && !request.Entitled() || overQuota(request) != "" {
		return true, ""
	}
	if p.backsOff(g, now) || p.places.isFutile(g, now) {
		p.staysAwake(g, group, now)
		return true, p.places.guardOf(g)
	}
	if turn := p.thrift.mayAt(g, now); turn.After(now) {
		p.wakeAt(g, group, turn, p.GoesAhead)
		return true, p.places.guardOf(g)
	}
	return false, ""
}

// plead evicts the pods that make room for a gang. Only the pods in due may be evicted, nil for all. It returns what preemptForGang
// returns.
func (p *Plugin) plead(ctx context.Context, g gang, group *podGroup, m *members, pod *corev1.Pod, due sets.Set[types.UID], refused fwk.NodeToStatusReader) (node, why string) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "", "" // it is in memory
	}
	b := p.bearingOf(nodes)
	b.whole = keptWhole(nodes, refused)
	request := p.requestOf(group, m)
	b.request = request
	b.kept, _ = p.keptFor(g, group, m)
	move, setback := p.clearing(ctx, g, group, m, b, due)
	if move != nil {
		p.thrift.forget(g, p.now())
	} else if !p.replay {
		p.thrift.inVain(g, setback.looked, p.now())
	}
	switch {
	case move == nil && due != nil:
		p.changesItsMind(g, group, m)
		return "", ""
	case move == nil && setback.unfinished:
		p.nominate(m.waiting, nil)
		p.wakeAt(g, group, p.thrift.mayAt(g, p.now()), p.GoesAhead) // the search continues then
		return "", ""
	case move == nil:
		p.nominate(m.waiting, nil)
		return "", p.holdOff(g, group, setback)
	case len(move.victims) == 0:
		p.withdraw(keyOf(g))
		return p.await(move, m, pod), ""
	}
	p.quotas.Promise(m.waiting, move.to)
	return move.to[pod.UID], p.clear(g, move, m.waiting, pod, due != nil)
}

// await returns the node for a pod whose gang needs no further victims, "" for none.
func (p *Plugin) await(move *clearance, m *members, pod *corev1.Pod) string {
	if !move.awaits { // the gang is not kept out by the pods on the nodes
		p.nominate(m.waiting, nil)
		return ""
	}
	p.keepNominated(m.waiting, move.to)
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

// nominatedFirst sorts nominated members before those beyond minMember.
func nominatedFirst(members []*corev1.Pod) []*corev1.Pod {
	rest := func(pod *corev1.Pod) int {
		if pod.Status.NominatedNodeName == "" {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(members), func(a, b *corev1.Pod) int { return rest(a) - rest(b) })
}
