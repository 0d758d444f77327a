package coscheduling

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// releasePartialGang releases a partially bound gang that cannot be completed. A leader that died between two bindings, or a failed binding,
// left some members on nodes, and the room for the others is gone; or it was whole, and the members that are made again find no room; or the API
// server refuses the binding of a member again and again. The bound members would hold their GPUs for nothing until other pods end, which may
// themselves wait for those GPUs. Pods placed by another scheduler are left alone.
func (p *Plugin) releasePartialGang(g gang, group *podgroup.Group, m *placement.Members, pod *corev1.Pod) {
	now := p.now()
	ours, leaving := partial.BoundByScheduler(pod.Spec.SchedulerName, m), p.leavingMembers(g, group)
	if partial.HasLostMember(m, leaving) {
		p.gangs.changeState(g, (*phase.Gang).RecordEarlierLoss)
	}
	part := phase.Part{
		IsHalf:       p.isPartiallyBound(g, group, m, ours) && !p.finished.HasFinishedSibling(pod),
		AwaitedUntil: partial.AwaitedUntil(leaving, p.isOnOpenNode, now),
	}
	var ends bool
	p.gangs.changeKnown(g, func(s *phase.Gang) { ends = s.DecideRelease(part, now) })
	if !ends || !preemption.NewBudgets(p.budgets, p.departures.UncountedPods(now)).AllowsEviction(ours) {
		return
	}
	p.gangs.changeKnown(g, func(s *phase.Gang) {
		s.EndPartial()
		s.HoldBackStart()
	})
	p.writeRelease(g, ours, pod)
}

// isPartiallyBound reports whether a gang is partially bound, and records it. The gang stays so until it is whole, whichever members are recreated,
// and whatever its PodGroup says in the meantime. A gang that this process has seen whole is not partial, whichever leader bound it, unless it has
// lost a member since.
func (p *Plugin) isPartiallyBound(g gang, group *podgroup.Group, m *placement.Members, ours []*corev1.Pod) bool {
	state := p.gangs.stateOf(g)
	if !partial.MayBeReleased(ours, m, group.MinMember) || state.WasWhole() {
		return false
	}
	of := partial.Group{MinMember: group.MinMember, Generation: group.Generation, Created: group.CreationTimestamp.Time}
	isHalf := state.IsPartial() || partial.WasNeverWhole(ours, m, of, p.now())
	if isHalf {
		p.gangs.changeState(g, (*phase.Gang).MarkPartial)
	}
	return isHalf
}

// isOnOpenNode reports whether the node of a pod is still there, and open to it.
func (p *Plugin) isOnOpenNode(pod *corev1.Pod) bool {
	node, err := p.nodes.Get(pod.Spec.NodeName)
	return err == nil && isOpenTo(node, pod)
}

// writeRelease evicts the bound members of a gang, concurrently with the scheduling of other pods. The condition is written to all of them first: by it a
// later attempt, or another leader, recognizes the rest of a gang whose release has begun.
func (p *Plugin) writeRelease(g gang, members []*corev1.Pod, without *corev1.Pod) {
	p.departures.BeginEvictions(members)
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		why, gone := releaseReason(without), sets.New[types.UID]()
		err := preemption.ForEachPod(ctx, members, func(ctx context.Context, member *corev1.Pod) error {
			return p.evictor().WriteEvictionReason(ctx, member, why)
		})
		if err == nil {
			gone, err = p.evictor().EvictAll(ctx, members, why, preemption.IsRefusal, func() bool { return true })
		}
		if p.departures.EndEvictions(members, gone.Has, p.now()); err != nil {
			logger.Error(err, "Could not end half a gang, which is tried again")
			p.gangs.planAttempt(g, phase.BoundInPart, p.now().Add(phase.FirstWriteRetry))
			return
		}
		logger.V(2).Info("Half a gang ends, as there is no room for the rest of it", "members", len(members))
	}()
}

// noteLostMember records that a member of a gang is gone. If it was lost, whatever took it, and fewer remain than the gang needs, the gang is
// partially bound from now on.
func (p *Plugin) noteLostMember(g gang, pod *corev1.Pod) {
	if !partial.IsLost(pod) {
		return
	}
	needs := math.MaxInt // the size that it had when it was whole decides
	if group := p.groups.GetGroup(g.group); group.UnusableReason() == "" {
		needs = group.MinMember
	} else if !p.gangs.stateOf(g).WasWhole() {
		return
	}
	p.gangs.changeKnown(g, func(s *phase.Gang) { s.RecordLostMember(needs) })
}

// leavingMembers returns the members that a gang has lost, and that still end on their nodes.
func (p *Plugin) leavingMembers(g gang, group *podgroup.Group) []*corev1.Pod {
	return slices.DeleteFunc(p.podsByIndex(byLeavingGroup, g.group.String()), func(pod *corev1.Pod) bool { return gangOf(pod, group) != g })
}

// noteEarlierLoss records that the gang of a pod had lost it before this process saw the gang. It is called when the pod is gone, with which the last
// trace of the loss goes: when a process begins, it does not know yet which others were made since.
func (p *Plugin) noteEarlierLoss(pod *corev1.Pod) {
	if !partial.IsLeaving(pod) {
		return
	}
	for _, name := range pkggang.NamesFor(pod) {
		group := p.groups.GetGroup(name)
		if group.UnusableReason() != "" {
			continue
		}
		g := gangOf(pod, group)
		if state := p.gangs.stateOf(g); state.Bound == 0 || state.WasWhole() || state.IsPartial() {
			continue
		}
		m := p.membersOf(pod, group)
		if partial.HasLostMember(&m, append(p.leavingMembers(g, group), pod)) {
			p.gangs.changeKnown(g, (*phase.Gang).RecordEarlierLoss)
		}
	}
}

// isPartialForLong reports whether a gang, of which a member enters the queue, has been partially bound for as long as it may be: the member is tried
// then, although others are still to come.
func (p *Plugin) isPartialForLong(g gang) (forLong bool) {
	p.gangs.changeKnown(g, func(s *phase.Gang) { forLong = s.IsPartialForLong(p.now()) })
	return forLong
}
