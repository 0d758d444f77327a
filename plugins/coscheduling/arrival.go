package coscheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

const (
	// arrivalWindow is how long after the arrival of its newest member a gang reports that it is incomplete. Controllers create members in
	// rounds, with far less time between two of them.
	arrivalWindow = 3 * time.Second
	// lastWindow is how long held members wait for the outcome of the last member, which may be deleted or held back in the meantime.
	lastWindow = 30 * time.Second
	// wholeCountTTL is how long a gang counts as whole without a recount: all of its members enter the queue at once, under the lock of the queue.
	wholeCountTTL = time.Second
)

// arrival is how a gang assembles, by PodGroup. A controller creates one member after the other. An attempt for each new member would cost an
// attempt, an event and a write, and each would only say that more members are still to come.
type arrival struct {
	// heldMembers are the members held out of the queue, until more arrive or the last one has been tried for all.
	heldMembers sets.Set[types.UID]
	// due is how many more members must arrive before the gang can be whole. Counting a large gang for each of its members would take seconds.
	due int
	// timer runs while members are held.
	timer *time.Timer
	// wholeAt is when the gang was whole, zero while it is not.
	wholeAt time.Time
	// triedIncomplete says that members are tried although the gang is incomplete, so that their status says what is missing.
	triedIncomplete bool
}

// enqueueDecision is the decision about a member that enters the queue.
type enqueueDecision int

const (
	decisionEnqueue enqueueDecision = iota
	decisionHold
	// decisionCount requires a count of the gang.
	decisionCount
)

// decideQueued decides about a member that enters the queue.
func (a *arrival) decideQueued(pod types.UID, now time.Time) enqueueDecision {
	switch {
	case a.triedIncomplete || now.Before(a.wholeAt.Add(wholeCountTTL)):
		a.heldMembers.Delete(pod)
		return decisionEnqueue
	case !a.wholeAt.IsZero():
		return decisionCount
	}
	if !a.heldMembers.Has(pod) {
		a.heldMembers.Insert(pod)
		a.due--
		a.timer.Reset(arrivalWindow)
	}
	if a.due > 0 {
		return decisionHold
	}
	return decisionCount
}

// recordCount records how many members are missing, and decides about the given one.
func (a *arrival) recordCount(pod types.UID, due int, now time.Time) enqueueDecision {
	if a.due = due; due <= 0 {
		if a.wholeAt.IsZero() && a.timer != nil {
			a.timer.Reset(lastWindow)
		}
		a.wholeAt = now
		a.heldMembers.Delete(pod)
		return decisionEnqueue
	}
	a.wholeAt = time.Time{}
	if a.triedIncomplete {
		return decisionEnqueue
	}
	a.heldMembers.Insert(pod)
	return decisionHold
}

// stopTimer ends the wait for further members.
func (a *arrival) stopTimer() {
	if a != nil && a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// changeArrival changes how the members of a PodGroup have arrived, if anything is known of that.
func (r *gangs) changeArrival(group types.NamespacedName, what func(*arrival)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changeArrivalLocked(group, what)
}

// changeArrivalLocked is changeArrival with the lock held.
func (r *gangs) changeArrivalLocked(group types.NamespacedName, what func(*arrival)) {
	if s, ok := r.states[gang{group: group}]; ok && s.arrival != nil {
		r.applyChange(gang{group: group}, s, func(s *gangState) {
			what(s.arrival)
			s.SetAssembling(len(s.arrival.heldMembers) > 0)
		})
	}
}

// decideQueued decides about a member that enters the queue.
func (r *gangs) decideQueued(group types.NamespacedName, pod types.UID, now time.Time) (as enqueueDecision) {
	as = decisionCount
	r.changeArrival(group, func(a *arrival) { as = a.decideQueued(pod, now) })
	return as
}

// recordCount records how many members are missing, and returns whether the given member is held out of the queue. It calls try with the
// held members if no more have arrived for a while, or if none has been released since the gang became whole, as in a process that does not
// lead. Only in the first case do the members just need to report that the gang is incomplete.
func (r *gangs) recordCount(group types.NamespacedName, pod types.UID, due int, now time.Time, try func(kept sets.Set[types.UID], told bool)) (as enqueueDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.ensureState(gang{group: group}); s.arrival == nil {
		s.arrival = &arrival{heldMembers: sets.New[types.UID]()}
	}
	as = decisionEnqueue
	r.changeArrivalLocked(group, func(a *arrival) {
		if as = a.recordCount(pod, due, now); as == decisionHold && a.timer == nil {
			a.timer = time.AfterFunc(arrivalWindow, func() {
				if kept, told := r.takeHeld(group, a); len(kept) > 0 {
					try(kept, told)
				}
			})
		}
	})
	return as
}

// takeHeld releases the held members and returns them, and whether their gang is incomplete. of is the expected arrival; nil stands for the current
// one, if its gang is whole.
func (r *gangs) takeHeld(group types.NamespacedName, of *arrival) (kept sets.Set[types.UID], told bool) {
	r.changeArrival(group, func(a *arrival) {
		if of != nil && of != a || of == nil && a.wholeAt.IsZero() {
			return
		}
		a.triedIncomplete = a.wholeAt.IsZero()
		kept, told = a.heldMembers, a.triedIncomplete
		a.heldMembers = sets.New[types.UID]()
		a.stopTimer()
	})
	return kept, told
}

// requireRecount forces a count of a gang when its next member enters the queue.
func (r *gangs) requireRecount(group types.NamespacedName) {
	r.changeArrival(group, func(a *arrival) {
		if a.due = 0; !a.wholeAt.IsZero() {
			a.wholeAt = a.wholeAt.Add(-wholeCountTTL)
		}
	})
}

// holdsMembers reports whether members of a gang are held out of the queue.
func (r *gangs) holdsMembers(group types.NamespacedName) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.states[gang{group: group}]
	return ok && s.arrival != nil && len(s.arrival.heldMembers) > 0
}

// holdIncompleteGang holds a member out of the queue while its gang is incomplete and more members are arriving. It counts every pod with the label;
// PreFilter determines which of them are members and are ready. The last member is tried for all. If it gets a place, Permit activates the
// others; otherwise releaseHeldMembers does.
//
// A member with a nomination is never held: the queue only tracks the nominations of pods that it accepts.
func (p *Plugin) holdIncompleteGang(pod *corev1.Pod, name types.NamespacedName) *fwk.Status {
	group, now := p.groups.GetGroup(name), time.Now()
	if group != nil && (group.Problem != "" || p.isPartialForLong(gangOf(pod, group))) || p.finished.HasFinishedSibling(pod) {
		return nil
	}
	as := p.gangs.decideQueued(name, pod.UID, now)
	if as == decisionCount {
		due := 1 // it is counted as soon as its PodGroup is there
		if group != nil {
			due = group.MinMember - p.countGroupPods(name)
		}
		as = p.gangs.recordCount(name, pod.UID, due, now, func(kept sets.Set[types.UID], told bool) { p.activateHeld(name, kept, told) })
	}
	if as == decisionHold && pod.Status.NominatedNodeName == "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "members of its gang still come")
	}
	return nil
}

// releaseHeldMembers activates the held members once the outcome of the member that was tried for all is known: it found no place, another
// leader had bound it, or it is gone.
func (p *Plugin) releaseHeldMembers(name types.NamespacedName) {
	if kept, _ := p.gangs.takeHeld(name, nil); len(kept) > 0 {
		p.activateHeld(name, kept, true)
	}
}

// countGroupPods returns how many live pods name a PodGroup.
func (p *Plugin) countGroupPods(group types.NamespacedName) int {
	return p.countIndexedPods(byGroup, group.String())
}

// countGangPods returns how many live pods a gang has, whether or not its PodGroup gathers the pods of several owners. The PodGroup may be gone.
func (p *Plugin) countGangPods(g gang) int {
	switch {
	case g.isSinglePod():
		return len(p.findSinglePod(g.group))
	case g.owner == "":
		return p.countGroupPods(g.group)
	}
	return p.countIndexedPods(byGang, gangJobName(g))
}

func (p *Plugin) countIndexedPods(index, key string) int {
	keys, err := p.pods.IndexKeys(index, key)
	if err != nil {
		return 0 // the index exists since the plugin was created
	}
	return len(keys)
}

// activateHeld activates held members. With rest, they queue behind all pods that arrive in the meantime: if their gang has no room, thousands of
// members that only need to report that must not delay others.
func (p *Plugin) activateHeld(name types.NamespacedName, kept sets.Set[types.UID], rest bool) {
	group, now := p.groups.GetGroup(name), p.now()
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.groupPods(name) {
		if !kept.Has(pod.UID) || p.placeOf(pod) != placeNone || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if rest && len(waiting) == 0 && group.UnusableReason() == "" {
			p.gangs.changeState(gangOf(pod, group), func(s *phase.Gang) { s.QueueBehind(now.Add(time.Duration(len(kept)) * restPerMember)) })
		}
		waiting[nameOf(pod).String()] = pod
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}
