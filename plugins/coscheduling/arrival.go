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

// arrivalWindow is how long after its newest member has come a gang is told that it is not whole. Controllers make members in rounds,
// with far less between two of them.
const arrivalWindow = 3 * time.Second

// arrivals are the gangs that are not whole yet, by PodGroup. A controller makes one member after the other: to try each as it comes
// would be an attempt, an event and a write for each, all of which say only that the others are still to come.
type arrivals struct {
	mu sync.Mutex
	of map[types.NamespacedName]*arrival
}

// arrival is a gang that was not whole when it was counted last.
type arrival struct {
	// members are those that were kept from the queue.
	members sets.Set[types.UID]
	// due is how many more have to come before it can be whole: to count a large gang for each of its members would take seconds, under
	// the lock of the queue.
	due   int
	timer *time.Timer
	// told says that its members are tried nonetheless, and told by that what is missing.
	told bool
}

// note notes a member that is put in the queue, and reports whether its gang may be whole by that.
func (a *arrivals) note(group types.NamespacedName, pod types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil || known.told {
		return true
	}
	if !known.members.Has(pod) {
		known.members.Insert(pod)
		known.due--
		known.timer.Reset(arrivalWindow)
	}
	return known.due <= 0
}

// wait notes how many more members have to come, and reports whether those that are there are kept from the queue. tell is called when
// no more have come for a while: from then on they are not.
func (a *arrivals) wait(group types.NamespacedName, pod types.UID, due int, tell func(members sets.Set[types.UID])) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		if a.of == nil {
			a.of = map[types.NamespacedName]*arrival{}
		}
		known = &arrival{members: sets.New(pod)}
		known.timer = time.AfterFunc(arrivalWindow, func() {
			a.mu.Lock()
			known.told = true
			a.mu.Unlock()
			tell(known.members) // to which none are added any more
		})
		a.of[group] = known
	}
	known.due = due
	return !known.told
}

// recount has a gang counted when the next of its members is put in the queue.
func (a *arrivals) recount(group types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[group]; known != nil {
		known.due = 0
	}
}

// end forgets a gang that is whole, or has no members any more, and returns the members that are kept from the queue, nil for none.
func (a *arrivals) end(group types.NamespacedName) sets.Set[types.UID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		return nil
	}
	known.timer.Stop()
	delete(a.of, group)
	if known.told {
		return nil
	}
	known.told = true // a timer that has just fired adds nothing to them
	return known.members
}

// has reports whether a gang was not whole when one of its members was put in the queue last, and whether its members are kept from
// the queue for it.
func (a *arrivals) has(group types.NamespacedName) (known, kept bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of[group]
	return of != nil, of != nil && !of.told
}

// arrives keeps a member from the queue while its gang is not whole and others still come. What is counted is all that has the label:
// who of those is a member, and is ready, is PreFilter's to tell.
func (p *Plugin) arrives(pod *corev1.Pod, name types.NamespacedName) *fwk.Status {
	group := p.groups.get(name)
	switch {
	case group != nil && group.problem != "" || p.finished.before(pod):
		return nil
	case !p.arrivals.note(name, pod.UID):
		return membersCome()
	}
	due := 0 // it is counted as soon as its PodGroup is there
	if group != nil {
		due = group.minMember - p.countOf(name)
		if due <= 0 {
			if kept := p.arrivals.end(name).Delete(pod.UID); len(kept) > 0 {
				go p.tryKept(name, kept) // the queue asks under its lock
			}
			return nil
		}
	}
	if p.arrivals.wait(name, pod.UID, due, func(kept sets.Set[types.UID]) { p.tryKept(name, kept) }) {
		return membersCome()
	}
	return nil
}

// membersCome is logged, and shown nowhere.
func membersCome() *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "members of its gang still come")
}

// countOf is how many live pods name a PodGroup.
func (p *Plugin) countOf(group types.NamespacedName) int {
	keys, err := p.pods.IndexKeys(byGroup, group.String())
	if err != nil {
		return 0 // the index is there since the plugin was made
	}
	return len(keys)
}

// tryKept has those tried that were kept from the queue. They come after all who come meanwhile: if there is room for their gang, it is
// enough that one of them is tried, and if there is none, thousands that are only told so must not keep others waiting.
func (p *Plugin) tryKept(name types.NamespacedName, kept sets.Set[types.UID]) {
	group, now := p.groups.get(name), p.now()
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.podsOf(name) {
		if !kept.Has(pod.UID) || p.placeOf(pod) != none || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if len(waiting) == 0 && unusable(group) == "" {
			p.places.rest(gangOf(pod, group), len(kept), now)
		}
		waiting[nameOf(pod).String()] = pod
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}
