package coscheduling

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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

// arrivals track how gangs assemble, by PodGroup. A controller creates one member after the other. An attempt for each new member would cost an
// attempt, an event and a write, and each would only say that more members are still to come.
type arrivals struct {
	mu    sync.Mutex
	gangs map[types.NamespacedName]*arrival
}

// arrival is the state of the members of one gang that have entered the queue.
type arrival struct {
	// heldMembers are the members held out of the queue, until more arrive or the last one has been tried for all.
	heldMembers sets.Set[types.UID]
	// due is how many more members must arrive before the gang can be whole. Counting a large gang for each of its members would take seconds.
	due int
	// timer runs while members are held.
	timer *time.Timer
	// wholeAt is when the gang was whole, zero while it is not.
	wholeAt time.Time
	// livePods is how many live pods named the PodGroup at the last count, less those that have gone since: a lower bound.
	livePods int
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
func (a *arrivals) decideQueued(group types.NamespacedName, pod types.UID, now time.Time) enqueueDecision {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.gangs[group]
	switch {
	case known == nil:
		return decisionCount
	case known.triedIncomplete || now.Before(known.wholeAt.Add(wholeCountTTL)):
		known.heldMembers.Delete(pod)
		return decisionEnqueue
	case !known.wholeAt.IsZero():
		return decisionCount
	}
	if !known.heldMembers.Has(pod) {
		known.heldMembers.Insert(pod)
		known.due--
		known.timer.Reset(arrivalWindow)
	}
	if known.due > 0 {
		return decisionHold
	}
	return decisionCount
}

// recordCount records how many members are missing, and returns whether the given member is held out of the queue. It calls try with the
// held members if no more have arrived for a while, or if none has been released since the gang became whole, as in a process that does not
// lead. Only in the first case do the members just need to report that the gang is incomplete.
func (a *arrivals) recordCount(group types.NamespacedName, pod types.UID, due int, now time.Time, try func(kept sets.Set[types.UID], told bool)) enqueueDecision {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.gangs[group]
	if known == nil {
		if a.gangs == nil {
			a.gangs = map[types.NamespacedName]*arrival{}
		}
		known = &arrival{heldMembers: sets.New[types.UID]()}
		a.gangs[group] = known
	}
	if known.due = due; due <= 0 {
		if known.wholeAt.IsZero() && known.timer != nil {
			known.timer.Reset(lastWindow)
		}
		known.wholeAt = now
		known.heldMembers.Delete(pod)
		return decisionEnqueue
	}
	known.wholeAt = time.Time{}
	if known.triedIncomplete {
		return decisionEnqueue
	}
	known.heldMembers.Insert(pod)
	if known.timer == nil {
		known.timer = time.AfterFunc(arrivalWindow, func() {
			if kept, told := a.takeHeld(group, known); len(kept) > 0 {
				try(kept, told)
			}
		})
	}
	return decisionHold
}

// takeHeld releases the held members and returns them, and whether their gang is incomplete. of is the expected arrival; nil stands for the current
// one, if its gang is whole.
func (a *arrivals) takeHeld(group types.NamespacedName, of *arrival) (kept sets.Set[types.UID], told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.gangs[group]
	if known == nil || of != nil && of != known || of == nil && known.wholeAt.IsZero() {
		return nil, false
	}
	known.triedIncomplete = known.wholeAt.IsZero()
	kept = known.heldMembers
	known.heldMembers = sets.New[types.UID]()
	if known.timer != nil {
		known.timer.Stop()
		known.timer = nil
	}
	return kept, known.triedIncomplete
}

// forgetGang drops the state of a gang.
func (a *arrivals) forgetGang(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.gangs[group]; known != nil && known.timer != nil {
		known.timer.Stop()
	}
	delete(a.gangs, group)
}

// requireRecount forces a count of a gang when its next member enters the queue.
func (a *arrivals) requireRecount(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.gangs[group]; known != nil {
		known.due = 0
		if !known.wholeAt.IsZero() {
			known.wholeAt = known.wholeAt.Add(-wholeCountTTL)
		}
	}
}

// recordDeparture records that a pod no longer names a PodGroup, and reports whether it may have been the last one.
func (a *arrivals) recordDeparture(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.gangs[group]
	if known == nil {
		return false
	}
	known.livePods--
	return known.livePods <= 0
}

// setLivePods sets how many live pods name a PodGroup.
func (a *arrivals) setLivePods(group types.NamespacedName, count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.gangs[group]; known != nil {
		known.livePods = count
	}
}

// holdsMembers reports whether members of a gang are held out of the queue.
func (a *arrivals) holdsMembers(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.gangs[group]
	return known != nil && len(known.heldMembers) > 0
}

// holdIncompleteGang holds a member out of the queue while its gang is incomplete and more members are arriving. It counts every pod with the label;
// PreFilter determines which of them are members and are ready. The last member is tried for all. If it gets a place, Permit activates the
// others; otherwise releaseHeldMembers does.
//
// A member with a nomination is never held: the queue only tracks the nominations of pods that it accepts.
func (p *Plugin) holdIncompleteGang(pod *corev1.Pod, name types.NamespacedName) *fwk.Status {
	group, now := p.groups.getGroup(name), time.Now()
	if group != nil && group.problem != "" || p.finished.hasFinishedSibling(pod) {
		return nil
	}
	as := p.arrivals.decideQueued(name, pod.UID, now)
	if as == decisionCount {
		due := 1 // it is counted as soon as its PodGroup is there
		if group != nil {
			due = group.minMember - p.countGroupPods(name)
		}
		as = p.arrivals.recordCount(name, pod.UID, due, now, func(kept sets.Set[types.UID], told bool) { p.activateHeld(name, kept, told) })
	}
	if as == decisionHold && pod.Status.NominatedNodeName == "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "members of its gang still come")
	}
	return nil
}

// releaseHeldMembers activates the held members once the outcome of the member that was tried for all is known: it found no place, another
// leader had bound it, or it is gone.
func (p *Plugin) releaseHeldMembers(name types.NamespacedName) {
	if kept, _ := p.arrivals.takeHeld(name, nil); len(kept) > 0 {
		p.activateHeld(name, kept, true)
	}
}

// forgetArrivals drops the state of a PodGroup whose last pod is gone, when a pod no longer names it. A full count for each departing member of
// a large gang would take seconds.
func (p *Plugin) forgetArrivals(name types.NamespacedName) {
	if !p.arrivals.recordDeparture(name) {
		return
	}
	if count := p.countGroupPods(name); count > 0 {
		p.arrivals.setLivePods(name, count)
		return
	}
	p.arrivals.forgetGang(name)
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
	group, now := p.groups.getGroup(name), p.now()
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.groupPods(name) {
		if !kept.Has(pod.UID) || p.placeOf(pod) != placeNone || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if rest && len(waiting) == 0 && unusableReason(group) == "" {
			p.gangStates.restGang(gangOf(pod, group), len(kept), now)
		}
		waiting[nameOf(pod).String()] = pod
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}
