package coscheduling

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/notice"
)

// notices are the pending preemptions with notices: which pods have to leave, and for which preemptor. In-memory decisions take
// precedence over whatever users write on their pods later. Only a new leader reads the annotations of pods, once. All profiles share it.
type notices struct {
	mu   sync.Mutex
	open map[notice.Key]*appeal
	// of is the preemption that each victim was notified of.
	of map[types.UID]notice.Key
	// took says that this process leads, and isWatching that a watch of pods is established.
	took, follows bool
	// telling is held while the notices for the victims of a pod are decided.
	telling sync.Mutex
}

// appeal is a pod or a gang whose victims were notified.
type appeal struct {
	by   notice.Preemptor
	told map[types.UID]noticed
	// to is where the members of a gang go. It is nil for a pod, and if an earlier leader decided it.
	to map[types.UID]string
	// attempts is how often a pod was allowed to evict victims whose time is over.
	attempts int
	timer    *time.Timer
}

// noticed is a pod with a notice.
type noticed struct {
	name types.NamespacedName
	notice.Notice
}

// begin records that victims are notified. Victims that were notified for another preemptor now leave for this one.
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

// remove removes a victim from its preemption, and ends the preemption with its last victim.
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

// end drops a preemption.
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

// isEmpty reports whether no pod has a notice.
func (n *notices) isEmpty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) == 0
}

// has reports whether victims were notified for a preemptor.
func (n *notices) has(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[key] != nil
}

// victims returns the notified victims of a preemptor, nil for none.
func (n *notices) victims(key notice.Key) map[types.UID]noticed {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return maps.Clone(a.told)
	}
	return nil
}

// placeOf returns the node of a gang member whose victims were notified.
func (n *notices) placeOf(key notice.Key, member types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.to[member]
	}
	return ""
}

// by returns the preemptor of a key.
func (n *notices) by(key notice.Key) (notice.Preemptor, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.by, true
	}
	return notice.Preemptor{}, false
}

// onPod returns the notice on a pod, false for none.
func (n *notices) onPod(victim types.UID) (notice.Notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key, ok := n.of[victim]
	if !ok {
		return notice.Notice{}, false
	}
	return n.open[key].told[victim].Notice, true
}

// drop ends a preemption, and returns its notified victims.
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

// keep removes the victims that no longer have to leave, and returns them.
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

// leave records that a victim is gone, or about to be.
func (n *notices) leave(victim types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove(victim)
}

// attempt counts how often a preemptor was allowed to evict victims whose time is over.
func (n *notices) attempt(key notice.Key) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		a.attempts++
		return a.attempts
	}
	return 0
}

// isDue reports whether a pod was allowed to evict victims whose time is over.
func (n *notices) isDue(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	return a != nil && a.attempts > 0
}

// arm sets the timer of a preemption, in place of an earlier one.
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

// firstToFollow reports whether the pods are not watched yet: one instance watches for all.
func (n *notices) firstToFollow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.follows
	n.follows = true
	return first
}

// allows reports whether a preemptor may evict a pod. If it has notified victims, it may evict only those.
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
