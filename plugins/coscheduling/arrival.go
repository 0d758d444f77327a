package coscheduling

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
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

// arrival is a gang that was not whole when one of its members was put in the queue last.
type arrival struct {
	// members is how many there were.
	members int
	timer   *time.Timer
	// told says that its members are tried nonetheless, and told by that what is missing.
	told bool
}

// wait reports whether the members of a gang are kept from the queue as there are only so many of them. tell is called when no
// more have come for a while: from then on they are not.
func (a *arrivals) wait(group types.NamespacedName, members int, tell func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		if a.of == nil {
			a.of = map[types.NamespacedName]*arrival{}
		}
		known = &arrival{members: members}
		known.timer = time.AfterFunc(arrivalWindow, func() {
			a.mu.Lock()
			known.told = true
			a.mu.Unlock()
			tell()
		})
		a.of[group] = known
	} else if members > known.members && !known.told {
		known.members = members
		known.timer.Reset(arrivalWindow)
	}
	return !known.told
}

// end forgets a gang that is whole, or has no members any more, and reports whether members may have been kept from the queue.
func (a *arrivals) end(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[group]
	if known == nil {
		return false
	}
	known.timer.Stop()
	delete(a.of, group)
	return !known.told
}

// has reports whether a gang was not whole when one of its members was put in the queue last.
func (a *arrivals) has(group types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[group] != nil
}

// arrives keeps a member from the queue while its gang is not whole and others still come. What is counted is all that has the label:
// who of those is a member, and is ready, is PreFilter's to tell.
func (p *Plugin) arrives(pod *corev1.Pod, name types.NamespacedName) *fwk.Status {
	group := p.groups.get(name)
	if group != nil && group.problem != "" || p.finished.before(pod) {
		return nil
	}
	members, want := p.countOf(name), 0
	if group != nil {
		want = group.minMember
	}
	if group != nil && members >= want {
		if p.arrivals.end(name) {
			go p.tryGroup(name) // the queue asks under its lock
		}
		return nil
	}
	if !p.arrivals.wait(name, members, func() { p.tryGroup(name) }) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(unusable(group), reason.GangTooFew.Of(members, want)))
}

// countOf is how many live pods name a PodGroup.
func (p *Plugin) countOf(group types.NamespacedName) int {
	keys, err := p.pods.IndexKeys(byGroup, group.String())
	if err != nil {
		return 0 // the index is there since the plugin was made
	}
	return len(keys)
}

// tryGroup has all tried that name a PodGroup and wait.
func (p *Plugin) tryGroup(group types.NamespacedName) {
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.podsOf(group) {
		if p.placeOf(pod) == none && len(pod.Spec.SchedulingGates) == 0 {
			waiting[nameOf(pod).String()] = pod
		}
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}
