package queue

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Positions are the queue positions of pods as of their arrival, where the position does not depend on the pod alone. All profiles share it: the
// queue uses one instance for the pods of all.
type Positions struct {
	mu        sync.RWMutex
	positions map[types.UID]*positionRecord
	// gone are the pods that will not return to the queue, in the order in which that was reported.
	gone []departedPod
	// queuedAt are when waiting pods first entered the queue, or last failed. The queue's own record of that is not accessible.
	queuedAt map[types.UID]time.Time
	// queued are the latest arrivals, by namespace.
	queued map[string][]*corev1.Pod
	// called is the pod to be tried next, by its address.
	called atomic.Pointer[corev1.Pod]
}

// Position is the part of a pod's queue position that depends on its gang, and on the pod that it replaces.
type Position struct {
	// HasBegun says that the gang had begun to take places, IsReplacement that the pod replaces one that left after a preemption notice.
	HasBegun, IsReplacement bool
	// At is the gang's time, zero for that of the pod.
	At time.Time
}

// positionRecord is the position of a pod. gone says that it will not return to the queue.
type positionRecord struct {
	Position
	gone bool
}

type departedPod struct {
	pod types.UID
	at  time.Time
}

// Retention is how long the position of a pod is kept after it last left the queue. The queue learns that later, and the sort key of a
// queued pod must not change.
const Retention = time.Minute

// RecordPosition records the position of a pod that enters the queue, nil for a pod whose position depends on nothing else.
func (t *Positions) RecordPosition(pod types.UID, as *Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.positions == nil {
		t.positions = map[types.UID]*positionRecord{}
	}
	if as == nil {
		delete(t.positions, pod)
		return
	}
	t.positions[pod] = &positionRecord{Position: *as}
}

// maxQueuedPods is how many arrivals of a namespace are reported.
const maxQueuedPods = 16

// RecordQueued records that a pod enters the queue.
func (t *Positions) RecordQueued(pod *corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queuedAt == nil {
		t.queuedAt, t.queued = map[types.UID]time.Time{}, map[string][]*corev1.Pod{}
	}
	if _, ok := t.queuedAt[pod.UID]; !ok {
		t.queuedAt[pod.UID] = now
	}
	if known := t.queued[pod.Namespace]; len(known) < maxQueuedPods {
		t.queued[pod.Namespace] = append(known, pod)
	}
}

// RecordFailure records a failed attempt of a pod, which moves it behind the pods that arrived in the meantime.
func (t *Positions) RecordFailure(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, waits := t.queuedAt[pod]; waits {
		t.queuedAt[pod] = now
	}
}

// TakeQueued returns some of the pods that entered the queue since the last call.
func (t *Positions) TakeQueued() (news []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pods := range t.queued {
		news = append(news, pods...)
	}
	clear(t.queued)
	return news
}

// QueuedSince returns when a pod first entered the queue or last failed, nil if it did not.
func (t *Positions) QueuedSince(pod types.UID) *time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if at, ok := t.queuedAt[pod]; ok {
		return &at
	}
	return nil
}

// PositionOf returns the position of a pod as it entered the queue.
func (t *Positions) PositionOf(pod types.UID) (Position, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if as, ok := t.positions[pod]; ok {
		return as.Position, true
	}
	return Position{}, false
}

// RecordGone drops the position of a pod that will not return to the queue, after a while.
func (t *Positions) RecordGone(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.queuedAt, pod)
	over := 0
	for over < len(t.gone) && now.Sub(t.gone[over].at) >= Retention {
		if left := t.gone[over].pod; t.positions[left] != nil && t.positions[left].gone {
			delete(t.positions, left)
		}
		over++
	}
	t.gone = t.gone[over:]
	if as := t.positions[pod]; as != nil && !as.gone {
		as.gone = true
		t.gone = append(t.gone, departedPod{pod, now})
	}
}

// CallPod moves a pod ahead of all others of its priority, except those that replace another pod and those whose gangs have begun; nil ends that.
// The pod is identified by its address.
func (t *Positions) CallPod(pod *corev1.Pod) { t.called.Store(pod) }

// CalledPod returns the pod to be tried next, nil for none.
func (t *Positions) CalledPod() *corev1.Pod { return t.called.Load() }

// CountKept returns how many positions are kept, and how many of them are of pods that are gone.
func (t *Positions) CountKept() (kept, gone int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.positions), len(t.gone)
}
