package preemption

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/notice"
)

// Notices are the pending preemptions with notices: which pods have to leave, and for which preemptor. In-memory decisions take
// precedence over whatever users write on their pods later. Only a new leader reads the annotations of pods, once. All profiles share it.
type Notices struct {
	mu   sync.Mutex
	open map[notice.Key]*openPreemption
	// keyByVictim is the preemption that each victim was notified of.
	keyByVictim map[types.UID]notice.Key
	// isLeader says that this process leads, and isWatching that a watch of pods is established.
	isLeader, isWatching bool
	// Planning is held while the notices for the victims of a pod are decided.
	Planning sync.Mutex
}

// openPreemption is a pod or a gang whose victims were notified.
type openPreemption struct {
	by       notice.Preemptor
	notified map[types.UID]NotifiedPod
	// to is where the members of a gang go. It is nil for a pod, and if an earlier leader decided it.
	to map[types.UID]string
	// attempts is how often a pod was allowed to evict victims whose time is over.
	attempts int
	timer    *time.Timer
}

// NotifiedPod is a pod with a notice.
type NotifiedPod struct {
	Name types.NamespacedName
	notice.Notice
}

// BeginPreemption records that victims are notified. Victims that were notified for another preemptor now leave for this one.
func (n *Notices) BeginPreemption(by notice.Preemptor, victims []*corev1.Pod, plan map[types.UID]notice.Notice, to map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open, n.keyByVictim = map[notice.Key]*openPreemption{}, map[types.UID]notice.Key{}
	}
	key := by.Key()
	a := n.open[key]
	if a == nil {
		a = &openPreemption{by: by, notified: map[types.UID]NotifiedPod{}}
		n.open[key] = a
	}
	a.to = to
	for _, pod := range victims {
		if n.keyByVictim[pod.UID] != key {
			n.removeVictim(pod.UID)
		}
		a.notified[pod.UID], n.keyByVictim[pod.UID] = NotifiedPod{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, plan[pod.UID]}, key
	}
}

// removeVictim removes a victim from its preemption, and ends the preemption with its last victim.
func (n *Notices) removeVictim(victim types.UID) {
	key, ok := n.keyByVictim[victim]
	if !ok {
		return
	}
	delete(n.keyByVictim, victim)
	a := n.open[key]
	if delete(a.notified, victim); len(a.notified) == 0 {
		n.endPreemption(key)
	}
}

// endPreemption drops a preemption.
func (n *Notices) endPreemption(key notice.Key) {
	a := n.open[key]
	if a == nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	for victim := range a.notified {
		delete(n.keyByVictim, victim)
	}
	delete(n.open, key)
}

// IsEmpty reports whether no pod has a notice.
func (n *Notices) IsEmpty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) == 0
}

// HasPreemption reports whether victims were notified for a preemptor.
func (n *Notices) HasPreemption(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[key] != nil
}

// NotifiedVictims returns the notified victims of a preemptor, nil for none.
func (n *Notices) NotifiedVictims(key notice.Key) map[types.UID]NotifiedPod {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return maps.Clone(a.notified)
	}
	return nil
}

// MemberNode returns the node of a gang member whose victims were notified.
func (n *Notices) MemberNode(key notice.Key, member types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.to[member]
	}
	return ""
}

// PreemptorOf returns the preemptor of a key.
func (n *Notices) PreemptorOf(key notice.Key) (notice.Preemptor, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		return a.by, true
	}
	return notice.Preemptor{}, false
}

// NoticeOn returns the notice on a pod, false for none.
func (n *Notices) NoticeOn(victim types.UID) (notice.Notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key, ok := n.keyByVictim[victim]
	if !ok {
		return notice.Notice{}, false
	}
	return n.open[key].notified[victim].Notice, true
}

// DropPreemption ends a preemption, and returns its notified victims.
func (n *Notices) DropPreemption(key notice.Key) map[types.UID]NotifiedPod {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return nil
	}
	dropped := maps.Clone(a.notified)
	n.endPreemption(key)
	return dropped
}

// SpareOthers removes the victims that no longer have to leave, and returns them.
func (n *Notices) SpareOthers(key notice.Key, leaving []*corev1.Pod) map[types.UID]NotifiedPod {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return nil
	}
	spared := maps.Clone(a.notified)
	for _, pod := range leaving {
		delete(spared, pod.UID)
	}
	for victim := range spared {
		n.removeVictim(victim)
	}
	return spared
}

// RecordVictimGone records that a victim is gone, or about to be.
func (n *Notices) RecordVictimGone(victim types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeVictim(victim)
}

// CountAttempt counts how often a preemptor was allowed to evict victims whose time is over.
func (n *Notices) CountAttempt(key notice.Key) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.open[key]; a != nil {
		a.attempts++
		return a.attempts
	}
	return 0
}

// IsDue reports whether a pod was allowed to evict victims whose time is over.
func (n *Notices) IsDue(key notice.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	return a != nil && a.attempts > 0
}

// SetTimer sets the timer of a preemption, in place of an earlier one.
func (n *Notices) SetTimer(key notice.Key, after time.Duration, look func()) {
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

// BeginLeading reports whether this process has only now begun to lead.
func (n *Notices) BeginLeading() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.isLeader
	n.isLeader = true
	return first
}

// HasBegunLeading reports whether this process has begun to lead.
func (n *Notices) HasBegunLeading() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isLeader
}

// ClaimWatch reports whether the pods are not watched yet: one instance watches for all.
func (n *Notices) ClaimWatch() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.isWatching
	n.isWatching = true
	return first
}

// AllowsEviction reports whether a preemptor may evict a pod. If it has notified victims, it may evict only those.
func (n *Notices) AllowsEviction(key notice.Key, victim types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.open[key]
	if a == nil {
		return true
	}
	_, is := a.notified[victim]
	return is
}
