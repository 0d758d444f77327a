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
)

// defaultTimeout is how long members wait if neither the profile nor the PodGroup sets a timeout, as in scheduler-plugins.
const defaultTimeout = time.Minute

// Permit makes a member wait until all members have a place. It counts the live members that are bound, whichever scheduler bound them, and
// those that this process holds.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (*fwk.Status, time.Duration) {
	p.promises.Place(pod, node)
	name, ok := p.groups.groupOf(pod)
	if !ok || p.finished.before(pod) {
		p.promises.End(string(pod.UID), node)
		return nil, 0
	}
	group := p.groups.get(name)
	if reason := unusable(group); reason != "" { // it was changed since PreFilter
		return fwk.NewStatus(fwk.Unschedulable, reason), 0
	}
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	last := 0
	switch placed := len(m.placed) + 1; {
	case placed < group.minMember:
		cycle.Plan(state, p.places.plans(g))
		first := p.places.waitingOf(g) == 0
		p.places.wait(g, pod.UID, node)
		p.arrivals.take(name, nil)
		if first { // activate the others, which the queue now sorts as members of a gang that has begun
			p.activate(pod, group)
		}
		return fwk.NewStatus(fwk.Wait), cmp.Or(group.timeout, p.args.timeout, defaultTimeout)
	case placed == group.minMember: // members beyond minMember may be placed now
		cycle.Plan(state, p.places.plans(g))
		last = 1
		p.activate(pod, group)
	}
	p.places.pass(g, pod.UID, node)
	p.places.succeed(g)
	if p.promises.Any() {
		p.promises.End(jobOf(g), append(p.places.nodesOf(m.placed), node)...)
	}
	p.letGo(g, last)
	return nil, 0
}

// letGo admits the members of a gang that wait in Permit, and so many more by the same plan.
func (p *Plugin) letGo(g gang, more int) {
	waiting, plan := p.places.takeWaiting(g)
	plan.Decide(p.now(), len(waiting)+more)
	if len(waiting) == 0 {
		return
	}
	for pod, node := range waiting {
		p.places.pass(g, pod, node)
	}
	p.tell(sets.KeySet(waiting), firstLook, func(held fwk.WaitingPod) { held.Allow(Name) })
}

// giveUp rejects the members of a gang that wait in Permit, so that no part of a gang keeps GPUs from other pods.
func (p *Plugin) giveUp(g gang, reason string) {
	waiting, _ := p.places.takeWaiting(g)
	if len(waiting) == 0 {
		return
	}
	p.tell(sets.KeySet(waiting), firstLook, func(held fwk.WaitingPod) { held.Reject(Name, reason) })
}

// A member that is not yet among the waiting pods is looked up again after a moment, and then after twice that, up to a limit. By the limit it
// cannot have come back from the queue, which backs off for a second.
const firstLook, lastLook = time.Millisecond, 128 * time.Millisecond

// tell delivers a decision to members that wait in Permit. The framework registers a waiting pod a moment after Permit has returned.
// Without retries a decision made in between, by an informer or another member's binding, would be lost, and the member would hold its place
// until its timeout.
func (p *Plugin) tell(members sets.Set[types.UID], again time.Duration, what func(fwk.WaitingPod)) {
	missing := members.Clone()
	p.handle.IterateOverWaitingPods(func(held fwk.WaitingPod) {
		if uid := held.GetPod().UID; missing.Has(uid) {
			missing.Delete(uid)
			what(held)
		}
	})
	if missing.Len() > 0 && again <= lastLook {
		time.AfterFunc(again, func() { p.tell(missing, 2*again, what) })
	}
}

// activate activates the queued members of a gang.
func (p *Plugin) activate(pod *corev1.Pod, group *podGroup) {
	siblings := map[string]*corev1.Pod{}
	own := gangOf(pod, group)
	for _, other := range p.podsIn(own, group) {
		if other.UID != pod.UID && gangOf(other, group) == own && p.placeOf(other) == none {
			siblings[nameOf(other).String()] = other
		}
	}
	if len(siblings) > 0 {
		p.handle.Activate(klog.Background(), siblings)
	}
}

// Reserve does nothing: Permit counts the place.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }

// Unreserve makes all waiting members give up their places when one loses its own.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	g, ok := p.places.forget(pod.UID)
	if !ok {
		return // it had none, or gave it up with the others
	}
	p.fail(g)
	p.giveUp(g, reasonLost)
	p.tidy(g)
}

// turnAway handles a member whose nodes another plugin rejects. The member is no longer the representative if there are other members,
// and the nominations of the gang end.
func (p *Plugin) turnAway(g gang, group *podGroup, m *members, pod *corev1.Pod) {
	if len(m.placed)+len(m.waiting) > group.minMember {
		p.places.dismiss(g, nameOf(pod))
	}
	p.nominate(m.waiting, nil)
}

// PostFilter makes the waiting members give up their places when one finds none.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, refused fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	name, ok := p.groups.groupOf(pod)
	p.asked = pod.UID
	defer p.forgetGone(pod)
	if !ok {
		return p.reclaim(ctx, pod, refused)
	}
	p.decided(name)
	group := p.groups.get(name)
	if unusable(group) != "" {
		p.promises.End(jobOf(gang{group: name}))
		p.promises.End(jobOf(gang{group: name, owner: ownerOf(pod)}))
		return nowhere(pod), fwk.NewStatus(fwk.Unschedulable) // PreFilter has said why
	}
	return p.hadNone(ctx, state, pod, group, refused)
}

// hadNone makes the waiting members of a gang give up their places when one finds none, unless victims leave for them, or it may find a place on
// another node.
func (p *Plugin) hadNone(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, group *podGroup, refused fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	if a := attemptIn(state); a != nil && a.leans {
		p.places.stray(g, pod.UID)
		return p.elsewhere(pod)
	}
	if p.standsWithout(pod, group, &m) {
		return nil, fwk.NewStatus(fwk.Unschedulable) // the others keep their places
	}
	if begins(state) {
		p.places.inVain(g, p.now())
	}
	if node := plannedIn(state); node != "" && p.places.shun(g, node) {
		return p.elsewhere(pod)
	}
	why := ""
	if begins(state) {
		p.turnAway(g, group, &m, pod)
		p.breakPromise(pod, refused)
	} else {
		var node string
		if node, why = p.makeRoom(ctx, g, group, &m, pod, refused); node != "" {
			return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}, saying(why)
		}
		if told := p.promise(group, &m, refused); why == "" {
			why = told
		}
	}
	p.dissolve(g, group, &m, pod)
	p.fail(g)
	waited, siblings := p.places.waitingOf(g) > 0, reasonSibling
	if waited || begins(state) {
		if kept := p.staysOutside(g, group, &m, pod, refused); kept != "" {
			why, siblings = kept, kept
		} else if waited {
			why = reasonWhole
		}
	}
	p.giveUp(g, siblings)
	p.tidy(g)
	return nil, unschedulable(why)
}

// standsWithout reports whether the gang of a member continues, or may wait, without a place for that member.
func (p *Plugin) standsWithout(pod *corev1.Pod, group *podGroup, m *members) bool {
	missing := group.minMember - len(m.placed)
	// Bound members would keep their places forever, unlike held members, which have a timeout.
	onlyBound := m.bound > 0 && len(m.placed) == m.bound
	return missing <= 0 || !onlyBound && p.tolerates(missing, group.minMember) || isSpare(pod, m.waiting, missing)
}

// elsewhere retries a member that another plugin rejected on its planned node.
func (p *Plugin) elsewhere(pod *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(pod).String(): pod})
	return nil, fwk.NewStatus(fwk.Unschedulable, reasonElsewhere)
}

// nowhere ends the nomination of a pod, if it has one.
func nowhere(pod *corev1.Pod) *fwk.PostFilterResult {
	if pod.Status.NominatedNodeName == "" {
		return nil
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
}

// unschedulable builds a status with a reason, if there is one.
func unschedulable(why string) *fwk.Status {
	if why == "" {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	return fwk.NewStatus(fwk.Unschedulable, why)
}

// forgetGone drops the state recorded in the cycle of a member that is gone by now, because no event reports that again.
func (p *Plugin) forgetGone(pod *corev1.Pod) {
	if !p.isThere(pod) {
		p.forget(pod)
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

// tolerates reports whether so few members are missing that the others may keep their places for a while.
func (p *Plugin) tolerates(missing, want int) bool { return missing*100 <= p.args.tolerance*want }

// tidy drops the state of a gang without pods, so that user-defined names, or successive Jobs with the same label, do not add up. It is
// called for each departing member, and therefore does not go through a large gang each time.
func (p *Plugin) tidy(g gang) {
	if !p.places.mayBeGone(g) {
		return
	}
	if there := p.countIn(g); there > 0 {
		p.places.stay(g, there)
		return
	}
	p.places.drop(g)
	p.thrift.forget(g, p.now())
	p.promises.End(jobOf(g))
}

// fail records that a member found no place, which ends the plan. A rejection during the backoff does not count as a failure, or a gang
// whose members are tried all the time would back off forever.
func (p *Plugin) fail(g gang) {
	p.places.plan(g, nil)
	if now := p.now(); !p.backsOff(g, now) {
		p.places.fail(g, now)
	}
}

// tryLater activates the members at the end of the backoff. No event in the cluster reports that, and they would wait until kube-scheduler
// flushes its queue, after five minutes.
func (p *Plugin) tryLater(g gang, group *podGroup) {
	if !p.places.alarm(g) {
		return
	}
	time.AfterFunc(p.places.failed(g).Add(p.args.backoff).Sub(p.now()), func() {
		p.places.done(g)
		p.wake(g, group, anyMember)
	})
}

// wakeAt activates the chosen members at a time.
func (p *Plugin) wakeAt(g gang, group *podGroup, at time.Time, chosen func(*corev1.Pod) bool) {
	if p.places.wakesAt(g, at) {
		time.AfterFunc(at.Sub(p.now()), func() { p.wake(g, group, chosen) })
	}
}

func anyMember(*corev1.Pod) bool { return true }

// oneMember chooses the first member only.
func oneMember() func(*corev1.Pod) bool {
	chosen := false
	return func(*corev1.Pod) bool {
		first := !chosen
		chosen = true
		return first
	}
}

// wake activates the chosen waiting members of a gang.
func (p *Plugin) wake(g gang, group *podGroup, chosen func(*corev1.Pod) bool) {
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.podsIn(g, group) {
		if gangOf(pod, group) == g && p.placeOf(pod) == none && len(pod.Spec.SchedulingGates) == 0 && chosen(pod) {
			waiting[nameOf(pod).String()] = pod
		}
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}

// wakesAt sets when the members of a gang are activated, and reports whether that is a change.
func (p *places) wakesAt(g gang, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	news := !r.wakes.Equal(at)
	r.wakes = at
	return news
}

// backsOff reports whether a gang is backing off after a member found no place.
func (p *Plugin) backsOff(g gang, now time.Time) bool {
	return p.args.backoff > 0 && now.Before(p.places.failed(g).Add(p.args.backoff))
}
