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

// makeRoom has pods of lower priority leave for a gang that has no room: exactly as many as it takes, and nobody unless all
// members have their places then. It returns where the pod goes then, or why nobody leaves, "" where that needs no words.
//
// It is decided for the whole gang at once. When it is done one member at a time, as kube-scheduler does for pods, a gang that
// lacks one node evicts once a member, and one that cannot start for another reason does so over and over.
func (p *Plugin) makeRoom(ctx context.Context, g gang, group *podGroup, m *members, pod *corev1.Pod, refused fwk.NodeToStatusReader) (node, why string) {
	if m.missing(group.minMember) != "" || len(m.placed) > m.bound || len(group.minResources) > 0 {
		p.nominate(m.waiting, nil)
		return "", ""
	}
	// Without a node kube-scheduler's own preemption, which comes first, would have the last word: that the pod goes nowhere.
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

// holdsBack reports whether nobody is evicted for a gang for now, whoever could be, and why, "" where that needs no words.
func (p *Plugin) holdsBack(g gang, group *podGroup, m *members) (holdsBack bool, why string) {
	now := p.now()
	p.recall(g, m.waiting...)
	if abstains, why := p.places.abstains(g, now); abstains {
		p.nominate(m.waiting, nil) // or it would keep nodes from others that it does not go to
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

// plead has those leave that make room for a gang, of some, nil for all. It returns what makeRoom does.
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
		p.wakeAt(g, group, p.thrift.mayAt(g, p.now()), p.GoesAhead) // it goes on then
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

// await returns where a pod goes when nobody else has to leave for its gang, "" for nowhere.
func (p *Plugin) await(move *clearance, m *members, pod *corev1.Pod) string {
	if !move.awaits { // what keeps the gang out is not that somebody is there
		p.nominate(m.waiting, nil)
		return ""
	}
	p.keepNominated(m.waiting, move.to)
	if pod.Status.NominatedNodeName == "" {
		return ""
	}
	return move.to[pod.UID]
}

// mayEvict reports whether members may have others evicted at all.
func (p *Plugin) mayEvict(waiting []*corev1.Pod) bool {
	return !slices.ContainsFunc(waiting, func(pod *corev1.Pod) bool {
		return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
	})
}

// nominatedFirst has the members that places were made free for before those that are more than it takes.
func nominatedFirst(members []*corev1.Pod) []*corev1.Pod {
	rest := func(pod *corev1.Pod) int {
		if pod.Status.NominatedNodeName == "" {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(members), func(a, b *corev1.Pod) int { return rest(a) - rest(b) })
}
