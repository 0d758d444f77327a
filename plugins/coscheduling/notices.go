package coscheduling

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/notice"
)

// notices are who was told to leave, and for whom. What was decided counts, whatever users write on their pods since: what lies
// on the pods is read once, by a new leader. The instances of all profiles share it.
type notices struct {
	mu   sync.Mutex
	open map[notice.Key]*appeal
	// of is which appeal a victim was told of.
	of map[types.UID]notice.Key
	// took says that this process has begun to lead, and follows that somebody follows pods.
	took, follows bool
	// telling is held while it is decided what the victims of a pod are told.
	telling sync.Mutex
}

// appeal is a pod or a gang that others were told to leave for.
type appeal struct {
	by   notice.Preemptor
	told map[types.UID]noticed
	// to is where the members of a gang go, nil for a pod, and where a leader before this one has decided it.
	to map[types.UID]string
	// attempts is how often a pod was let evict those whose time is over.
	attempts int
	timer    *time.Timer
}

// noticed is a pod that was told something.
type noticed struct {
	name types.NamespacedName
	notice.Notice
}

// begin notes that others are told to leave. Those that were told so for somebody else leave for this one now.
func (n *notices) begin(by notice.Preemptor, victims []*corev1.Pod, plan map[types.UID]notice.Notice, to map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open, n.of = map[notice.Key]*appeal{}, map[types.UID]notice.Key{}
	}
	key := by.Key()
	a := n.open[key]
	if a == nil {
		a = &appeal{by: by, told: map[types.UID]noticed{}}
		n.open[key] = a
	}
	a.to = to
	for _, pod := range victims {
		if n.of[pod.UID] != key {
			n.remove(pod.UID)
		}
		a.told[pod.UID], n.of[pod.UID] = noticed{nameOf(pod), plan[pod.UID]}, key
	}
}

// remove takes a victim out of its appeal, and the appeal with its last victim.
func (n *notices) remove(victim types.UID) {
	key, ok := n.of[victim]
	if !ok {
		return
	}
	delete(n.of, victim)
	a := n.open[key]
	if delete(a.told, victim); len(a.told) == 0 {
		n.end(key)
	}
}

// end forgets an appeal.
func (n *notices) end(key notice.Key) {
	a := n.open[key]
	if a == nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	for victim := range a.told {
		delete(n.of, victim)
	}
	delete(n.open, key)
}

// isEmpty reports whether nobody was told anything.
func (n *notices) isEmpty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) == 0
}

// has reports whether others were told to leave for somebody.
func (n *notices) has(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[key] != nil
}

// victims are who was told to leave for somebody, nil for nobody.
func (n *notices) victims(key notice.Key) map[types.UID]noticed {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return maps.Clone(a.told)
	}
	return nil
}

// placeOf is where a member of a gang goes that others leave for.
func (n *notices) placeOf(key notice.Key, member types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.to[member]
	}
	return ""
}

// by is who others were told to leave for.
func (n *notices) by(key notice.Key) (notice.Preemptor, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.by, true
	}
	return notice.Preemptor{}, false
}

// onPod is what a pod was told, false for nothing.
func (n *notices) onPod(victim types.UID) (notice.Notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key, ok := n.of[victim]
	if !ok {
		return notice.Notice{}, false
	}
	return n.open[key].told[victim].Notice, true
}

// drop ends an appeal, and returns those that were told of it.
func (n *notices) drop(key notice.Key) map[types.UID]noticed {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return nil
	}
	dropped := maps.Clone(a.told)
	n.end(key)
	return dropped
}

// keep takes those out of an appeal that need not leave any more, and returns them.
func (n *notices) keep(key notice.Key, leaving []*corev1.Pod) map[types.UID]noticed {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return nil
	}
	spared := maps.Clone(a.told)
	for _, pod := range leaving {
		delete(spared, pod.UID)
	}
	for victim := range spared {
		n.remove(victim)
	}
	return spared
}

// leave notes that a victim is gone, or about to be.
func (n *notices) leave(victim types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove(victim)
}

// attempt counts how often somebody was let evict those whose time is over.
func (n *notices) attempt(key notice.Key) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		a.attempts++
		return a.attempts
	}
	return 0
}

// isDue reports whether a pod was let evict those whose time is over.
func (n *notices) isDue(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	return a != nil && a.attempts > 0
}

// arm has an appeal looked at again after a while, in place of any earlier time.
func (n *notices) arm(key notice.Key, after time.Duration, look func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(after, look)
}

// takeOver reports whether this process has only now begun to lead.
func (n *notices) takeOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.took
	n.took = true
	return first
}

// leads reports whether this process has begun to lead.
func (n *notices) leads() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.took
}

// firstToFollow reports whether nobody follows pods yet: one instance does for all.
func (n *notices) firstToFollow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.follows
	n.follows = true
	return first
}

// allows reports whether a preemptor may evict a pod, for all that was told: those alone whose time is over, if there are any.
func (n *notices) allows(key notice.Key, victim types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return true
	}
	_, is := a.told[victim]
	return is
}
