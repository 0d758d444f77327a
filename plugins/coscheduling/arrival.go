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
	// arrivalWindow is how long after its newest member has come a gang is told that it is not whole. Controllers make members in rounds,
	// with far less between two of them.
	arrivalWindow = 3 * time.Second
	// lastWindow is how long those that were kept out wait for what becomes of the last member, which may be deleted or held back meanwhile.
	lastWindow = 30 * time.Second
	// countedFor is how long a gang counts as whole without being counted again: all of its members are put in the queue at once, under the
	// lock of that.
	countedFor = time.Second
)

// arrivals are how gangs come together, by PodGroup. A controller makes one member after the other: to try each as it comes would be an
// attempt, an event and a write for each, all of which say only that the others are still to come.
type arrivals struct {
	mu sync.Mutex
	of map[types.NamespacedName]*arrival
}

// arrival is how the members of a gang stand that were put in the queue.
type arrival struct {
	// kept are those that are kept from the queue, while more have to come or the last is tried for all.
	kept sets.Set[types.UID]
	// due is how many more have to come before the gang can be whole: to count a large one for each of its members would take seconds.
	due int
	// timer runs while any are kept.
	timer *time.Timer
	// counted is when the gang was whole, zero while it is not.
	counted time.Time
	// there is how many live pods named the PodGroup when they were counted last, less those that have gone since: no more than there are.
	there int
	// told says that its members are tried although it is not whole, and told by that what is missing.
	told bool
}

// verdict is what becomes of a member that is put in the queue.
type verdict int

const (
	enters verdict = iota
	stays
	// unknown is that of a member whose gang has to be counted.
	unknown
)

// note notes a member that is put in the queue.
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

// count notes how many members have to come, and reports whether the one that is put in the queue is kept from it. try is called with
// those that are kept when no more have come for a while, or nobody has taken them since the gang was whole, as in a process that does not
// lead: only in the first case have they but to be told.
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

// take ends that members are kept, and returns them, and whether their gang is not whole. of is the arrival that is meant, nil for the one
// there is if its gang is whole.
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

// forget drops what is known of a gang.
func (a *arrivals) forget(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil && known.timer != nil {
		known.timer.Stop()
	}
	delete(a.of, group)
}

// recount has a gang counted when the next of its members is put in the queue.
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

// leaves notes that a pod names a PodGroup no more, and reports whether it may have been the last.
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

// stay notes how many live pods name a PodGroup.
func (a *arrivals) stay(group types.NamespacedName, count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil {
		known.there = count
	}
}

// keeps reports whether members of a gang are kept from the queue.
func (a *arrivals) keeps(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	return known != nil && len(known.kept) > 0
}

// arrives keeps a member from the queue while its gang is not whole and others still come. What is counted is all that has the label:
// who of those is a member, and is ready, is PreFilter's to tell. The last member is tried for all. If it gets a place, Permit
// has the others tried; otherwise decided has.
//
// One for which room is kept is never kept out: the queue notes the room only of those that it takes.
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

// decided has those tried that were kept from the queue, when it is known what became of the member that was tried for all: it found no
// place, another leader had bound it, or it is gone.
func (p *Plugin) decided(name types.NamespacedName) {
	if kept, _ := p.arrivals.take(name, nil); len(kept) > 0 {
		p.tryKept(name, kept, true)
	}
}

// forgetArrivals drops what is known of the members of a PodGroup once there are none: a pod names it no more. To count them for each that
// goes would take a large one seconds.
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

// countOf is how many live pods name a PodGroup.
func (p *Plugin) countOf(group types.NamespacedName) int { return p.counted(byGroup, group.String()) }

// countIn is how many live pods a gang has, whether or not its PodGroup gathers those of several owners, which may be gone.
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
		return 0 // the index is there since the plugin was made
	}
	return len(keys)
}

// tryKept has those tried that were kept from the queue; after all who come meanwhile if they rest: where there is no room for their gang,
// thousands that are only told so must not keep others waiting.
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
