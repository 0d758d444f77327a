package coscheduling

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// defaultTimeout is how long members wait if neither the profile nor the PodGroup sets a timeout, as in scheduler-plugins.
const defaultTimeout = time.Minute

// Permit makes a member wait until all members have a place. It counts the live members that are bound, whichever scheduler bound them, and
// those that this process holds.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (*fwk.Status, time.Duration) {
	p.startReservations.PlaceBet(pod, node)
	name, ok := p.groups.GroupOf(pod)
	if !ok || p.finished.HasFinishedSibling(pod) {
		p.startReservations.EndReservation(string(pod.UID), node)
		return nil, 0
	}
	group := p.groups.GetGroup(name)
	if reason := group.UnusableReason(); reason != "" { // it was changed since PreFilter
		return fwk.NewStatus(fwk.Unschedulable, reason), 0
	}
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	last := 0
	switch placed := len(m.Placed) + 1; {
	case placed < group.MinMember:
		cycle.WritePlan(state, p.gangs.gangBindPlan(g))
		first := p.gangs.stateOf(g).Waiting == 0
		p.gangs.movePod(g, pod.UID, node, phase.WaitingStage)
		p.gangs.takeHeld(name, nil)
		if first { // activate the others, which the queue now sorts as members of a gang that has begun
			p.activateSiblings(pod, group)
		}
		return fwk.NewStatus(fwk.Wait), cmp.Or(group.Timeout, p.args.timeout, defaultTimeout)
	case placed == group.MinMember: // members beyond minMember may be placed now
		cycle.WritePlan(state, p.gangs.gangBindPlan(g))
		last = 1
		p.activateSiblings(pod, group)
	}
	p.gangs.movePod(g, pod.UID, node, phase.PassedStage)
	p.gangs.recordSuccess(g)
	if p.startReservations.HasAny() {
		p.startReservations.EndReservation(gangJobName(g), append(p.gangs.nodesOf(m.Placed), node)...)
	}
	p.allowWaiting(g, last)
	return nil, 0
}

// allowWaiting admits the members of a gang that wait in Permit, and so many more by the same plan.
func (p *Plugin) allowWaiting(g gang, more int) {
	waiting, plan := p.gangs.takeWaiting(g)
	plan.SetDecision(p.now(), len(waiting)+more)
	if len(waiting) == 0 {
		return
	}
	for pod, node := range waiting {
		p.gangs.movePod(g, pod, node, phase.PassedStage)
	}
	p.resolveWaiting(sets.KeySet(waiting), firstPollInterval, func(held fwk.WaitingPod) { held.Allow(Name) })
}

// rejectWaiting rejects the members of a gang that wait in Permit, so that no part of a gang keeps GPUs from other pods.
func (p *Plugin) rejectWaiting(g gang, reason string) {
	waiting, _ := p.gangs.takeWaiting(g)
	if len(waiting) == 0 {
		return
	}
	p.resolveWaiting(sets.KeySet(waiting), firstPollInterval, func(held fwk.WaitingPod) { held.Reject(Name, reason) })
}

// A member that is not yet among the waiting pods is looked up again after a moment, and then after twice that, up to a limit. By the limit it
// cannot have come back from the queue, which backs off for a second.
const firstPollInterval, maxPollInterval = time.Millisecond, 128 * time.Millisecond

// resolveWaiting delivers a decision to members that wait in Permit. The framework registers a waiting pod a moment after Permit has returned.
// Without retries a decision made in between, by an informer or another member's binding, would be lost, and the member would hold its place
// until its timeout.
func (p *Plugin) resolveWaiting(members sets.Set[types.UID], again time.Duration, what func(fwk.WaitingPod)) {
	missing := members.Clone()
	p.handle.IterateOverWaitingPods(func(held fwk.WaitingPod) {
		if uid := held.GetPod().UID; missing.Has(uid) {
			missing.Delete(uid)
			what(held)
		}
	})
	if missing.Len() > 0 && again <= maxPollInterval {
		time.AfterFunc(again, func() { p.resolveWaiting(missing, 2*again, what) })
	}
}

// Reserve does nothing: Permit counts the place.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }

// Unreserve makes all waiting members give up their places when one loses its own.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	g, ok := p.gangs.forgetPod(pod.UID)
	if !ok {
		return // it had none, or gave it up with the others
	}
	p.failGang(g)
	p.rejectWaiting(g, reasonLost)
	p.dropEmptyGang(g)
}

// endNominations handles a member whose nodes another plugin rejects. The member is no longer the representative if there are other members,
// and the nominations of the gang end.
func (p *Plugin) endNominations(g gang, group *podgroup.Group, m *placement.Members, pod *corev1.Pod) {
	if len(m.Placed)+len(m.Waiting) > group.MinMember {
		p.gangs.dropRepresentative(g, nameOf(pod))
	}
	p.nominateMembers(m.Waiting, nil)
}

// PostFilter makes the waiting members give up their places when one finds none.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, refused fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	name, ok := p.groups.GroupOf(pod)
	p.lastPostFiltered = pod.UID
	defer p.forgetIfGone(pod)
	if !ok {
		return p.reclaimGuaranteed(ctx, pod, refused)
	}
	p.releaseHeldMembers(name)
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" {
		p.startReservations.EndReservation(gangJobName(gang{group: name}))
		p.startReservations.EndReservation(gangJobName(gang{group: name, owner: placement.OwnerOf(pod)}))
		return clearNomination(pod), fwk.NewStatus(fwk.Unschedulable) // PreFilter has said why
	}
	return p.handleNoNode(ctx, state, pod, group, refused)
}

// handleNoNode makes the waiting members of a gang give up their places when one finds none, unless victims leave for them, or it may find a place on
// another node.
func (p *Plugin) handleNoNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, group *podgroup.Group, refused fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	if a := attemptFrom(state); a != nil && a.prefersDomain {
		p.gangs.markOutsideDomain(g, pod.UID)
		return p.retryElsewhere(pod)
	}
	if p.toleratesMissing(pod, group, &m) {
		return nil, fwk.NewStatus(fwk.Unschedulable) // the others keep their places
	}
	if beginsGang(state) {
		p.gangs.changeKnown(g, func(s *phase.Gang) { s.BackOffPreemption(p.now()) })
	}
	if node := plannedNode(state); node != "" && p.gangs.excludeNode(g, node) {
		return p.retryElsewhere(pod)
	}
	why := ""
	if beginsGang(state) {
		p.endNominations(g, group, &m, pod)
		p.breakReservation(pod, refused)
	} else {
		var node string
		if node, why = p.preemptForGang(ctx, g, group, &m, pod, refused); node != "" {
			return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}, nominatedStatus(why)
		}
		if told := p.reserveStart(group, &m, refused); why == "" {
			why = told
		}
	}
	p.releasePartialGang(g, group, &m, pod)
	p.failGang(g)
	waited, siblings := p.gangs.stateOf(g).Waiting > 0, reasonSibling
	if waited || beginsGang(state) {
		if kept := p.holdRejectedGang(g, &m, pod, refused); kept != "" {
			why, siblings = kept, kept
		} else if waited {
			why = reasonNoRoomForAll
		}
	}
	p.rejectWaiting(g, siblings)
	p.dropEmptyGang(g)
	return nil, unschedulableStatus(why)
}

// toleratesMissing reports whether the gang of a member continues, or may wait, without a place for that member.
func (p *Plugin) toleratesMissing(pod *corev1.Pod, group *podgroup.Group, m *placement.Members) bool {
	missing := group.MinMember - len(m.Placed)
	// Bound members would keep their places forever, unlike held members, which have a timeout.
	onlyBound := m.Bound > 0 && len(m.Placed) == m.Bound
	return missing <= 0 || !onlyBound && p.isWithinTolerance(missing, group.MinMember) || isSpare(pod, m.Waiting, missing)
}

// retryElsewhere retries a member that another plugin rejected on its planned node.
func (p *Plugin) retryElsewhere(pod *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(pod).String(): pod})
	return nil, fwk.NewStatus(fwk.Unschedulable, reasonElsewhere)
}

// clearNomination ends the nomination of a pod, if it has one.
func clearNomination(pod *corev1.Pod) *fwk.PostFilterResult {
	if pod.Status.NominatedNodeName == "" {
		return nil
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
}

// unschedulableStatus builds a status with a reason, if there is one.
func unschedulableStatus(why string) *fwk.Status {
	if why == "" {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	return fwk.NewStatus(fwk.Unschedulable, why)
}

// forgetIfGone drops the state recorded in the cycle of a member that is gone by now, because no event reports that again.
func (p *Plugin) forgetIfGone(pod *corev1.Pod) {
	if !p.isAlive(pod) {
		p.forgetMember(pod)
	}
}

// isSpare reports whether a member is not needed, because enough others are nominated.
func isSpare(pod *corev1.Pod, waiting []*corev1.Pod, missing int) bool {
	nominated := 0
	for _, member := range waiting {
		if member.Status.NominatedNodeName != "" {
			nominated++
		}
	}
	return pod.Status.NominatedNodeName == "" && nominated >= max(missing, 1)
}

// isWithinTolerance reports whether so few members are missing that the others may keep their places for a while.
func (p *Plugin) isWithinTolerance(missing, want int) bool {
	return missing*100 <= p.args.tolerance*want
}

// dropEmptyGang drops the state of a gang without pods, so that user-defined names, or successive Jobs with the same label, do not add up. It is
// called for each departing member, and therefore does not go through a large gang each time.
func (p *Plugin) dropEmptyGang(g gang) {
	if !p.gangs.mayBeGone(g) {
		return
	}
	if there := p.countGangPods(g); there > 0 {
		p.gangs.changeKnown(g, func(s *phase.Gang) { s.SetLiveMembers(there) })
		return
	}
	p.gangs.dropGang(g)
	p.startReservations.EndReservation(gangJobName(g))
}

// failGang records that a member found no place, which ends the plan.
func (p *Plugin) failGang(g gang) {
	p.gangs.setPlan(g, nil)
	p.gangs.changeState(g, func(s *phase.Gang) { s.RecordFailure(p.now(), p.args.backoff) })
}
