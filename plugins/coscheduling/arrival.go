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
	// countedFor is how long a gang counts as whole without a recount: all of its members enter the queue at once, under the lock of the queue.
	countedFor = time.Second
)

// arrivals track how gangs assemble, by PodGroup. A controller creates one member after the other. An attempt for each new member would cost an
// attempt, an event and a write, and each would only say that more members are still to come.
type arrivals struct {
	mu sync.Mutex
	of map[types.NamespacedName]*arrival
}

// arrival is the state of the members of one gang that have entered the queue.
type arrival struct {
	// kept are the members held out of the queue, until more arrive or the last one has been tried for all.
	kept sets.Set[types.UID]
	// due is how many more members must arrive before the gang can be whole. Counting a large gang for each of its members would take seconds.
	due int
	// timer runs while members are held.
	timer *time.Timer
	// counted is when the gang was whole, zero while it is not.
	counted time.Time
	// there is how many live pods named the PodGroup at the last count, less those that have gone since: a lower bound.
	there int
	// told says that members are tried although the gang is incomplete, so that their status says what is missing.
	told bool
}

// verdict is the decision about a member that enters the queue.
type verdict int

const (
	enters verdict = iota
	stays
	// unknown requires a count of the gang.
	unknown
)

// note decides about a member that enters the queue.
func (a *arrivals) note(group types.NamespacedName, pod types.UID, now time.Time) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	switch {
	case known == nil:
		return unknown
	case known.told || now.Before(known.counted.Add(countedFor)):
		known.kept.Delete(pod)
		return enters
	case !known.counted.IsZero():
		return unknown
	}
	if !known.kept.Has(pod) {
		known.kept.Insert(pod)
		known.due--
		known.timer.Reset(arrivalWindow)
	}
	if known.due > 0 {
		return stays
	}
	return unknown
}

// count records how many members are missing, and returns whether the given member is held out of the queue. It calls try with the
// held members if no more have arrived for a while, or if none has been released since the gang became whole, as in a process that does not
// lead. Only in the first case do the members just need to report that the gang is incomplete.
func (a *arrivals) count(group types.NamespacedName, pod types.UID, due int, now time.Time, try func(kept sets.Set[types.UID], told bool)) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		if a.of == nil {
			a.of = map[types.NamespacedName]*arrival{}
		}
		known = &arrival{kept: sets.New[types.UID]()}
		a.of[group] = known
	}
	if known.due = due; due <= 0 {
		if known.counted.IsZero() && known.timer != nil {
			known.timer.Reset(lastWindow)
		}
		known.counted = now
		known.kept.Delete(pod)
		return enters
	}
	known.counted = time.Time{}
	if known.told {
		return enters
	}
	known.kept.Insert(pod)
	if known.timer == nil {
		known.timer = time.AfterFunc(arrivalWindow, func() {
			if kept, told := a.take(group, known); len(kept) > 0 {
				try(kept, told)
			}
		})
	}
	return stays
}

// take releases the held members and returns them, and whether their gang is incomplete. of is the expected arrival; nil stands for the current
// one, if its gang is whole.
func (a *arrivals) take(group types.NamespacedName, of *arrival) (kept sets.Set[types.UID], told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil || of != nil && of != known || of == nil && known.counted.IsZero() {
		return nil, false
	}
	known.told = known.counted.IsZero()
	kept = known.kept
	known.kept = sets.New[types.UID]()
	if known.timer != nil {
		known.timer.Stop()
		known.timer = nil
	}
	return kept, known.told
}

// forget drops the state of a gang.
func (a *arrivals) forget(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil && known.timer != nil {
		known.timer.Stop()
	}
	delete(a.of, group)
}

// recount forces a count of a gang when its next member enters the queue.
func (a *arrivals) recount(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil {
		known.due = 0
		if !known.counted.IsZero() {
			known.counted = known.counted.Add(-countedFor)
		}
	}
}

// leaves records that a pod no longer names a PodGroup, and reports whether it may have been the last one.
func (a *arrivals) leaves(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		return false
	}
	known.there--
	return known.there <= 0
}

// stay sets how many live pods name a PodGroup.
func (a *arrivals) stay(group types.NamespacedName, count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil {
		known.there = count
	}
}

// keeps reports whether members of a gang are held out of the queue.
func (a *arrivals) keeps(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	return known != nil && len(known.kept) > 0
}

// arrives holds a member out of the queue while its gang is incomplete and more members are arriving. It counts every pod with the label;
// PreFilter determines which of them are members and are ready. The last member is tried for all. If it gets a place, Permit activates the
// others; otherwise releaseHeldMembers does.
//
// A member with a nomination is never held: the queue only tracks the nominations of pods that it accepts.
func (p *Plugin) arrives(pod *corev1.Pod, name types.NamespacedName) *fwk.Status {
	group, now := p.groups.get(name), time.Now()
	if group != nil && group.problem != "" || p.finished.before(pod) {
		return nil
	}
	as := p.arrivals.note(name, pod.UID, now)
	if as == unknown {
		due := 1 // it is counted as soon as its PodGroup is there
		if group != nil {
			due = group.minMember - p.countOf(name)
		}
		as = p.arrivals.count(name, pod.UID, due, now, func(kept sets.Set[types.UID], told bool) { p.tryKept(name, kept, told) })
	}
	if as == stays && pod.Status.NominatedNodeName == "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "members of its gang still come")
	}
	return nil
}

// decided activates the held members once the outcome of the member that was tried for all is known: it found no place, another
// leader had bound it, or it is gone.
func (p *Plugin) decided(name types.NamespacedName) {
	if kept, _ := p.arrivals.take(name, nil); len(kept) > 0 {
		p.tryKept(name, kept, true)
	}
}

// forgetArrivals drops the state of a PodGroup whose last pod is gone, when a pod no longer names it. A full count for each departing member of
// a large gang would take seconds.
func (p *Plugin) forgetArrivals(name types.NamespacedName) {
	if !p.arrivals.leaves(name) {
		return
	}
	if count := p.countOf(name); count > 0 {
		p.arrivals.stay(name, count)
		return
	}
	p.arrivals.forget(name)
}

// countOf returns how many live pods name a PodGroup.
func (p *Plugin) countOf(group types.NamespacedName) int { return p.counted(byGroup, group.String()) }

// countIn returns how many live pods a gang has, whether or not its PodGroup gathers the pods of several owners. The PodGroup may be gone.
func (p *Plugin) countIn(g gang) int {
	switch {
	case g.isAlone():
		return len(p.podAlone(g.group))
	case g.owner == "":
		return p.countOf(g.group)
	}
	return p.counted(byGang, jobOf(g))
}

func (p *Plugin) counted(index, key string) int {
	keys, err := p.pods.IndexKeys(index, key)
	if err != nil {
		return 0 // the index exists since the plugin was created
	}
	return len(keys)
}

// tryKept activates held members. With rest, they queue behind all pods that arrive in the meantime: if their gang has no room, thousands of
// members that only need to report that must not delay others.
func (p *Plugin) tryKept(name types.NamespacedName, kept sets.Set[types.UID], rest bool) {
	group, now := p.groups.get(name), p.now()
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.podsOf(name) {
		if !kept.Has(pod.UID) || p.placeOf(pod) != none || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if rest && len(waiting) == 0 && unusable(group) == "" {
			p.places.rest(gangOf(pod, group), len(kept), now)
		}
		waiting[nameOf(pod).String()] = pod
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}
