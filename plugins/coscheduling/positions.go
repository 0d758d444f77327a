package coscheduling

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// queuePositions are the queue positions of pods as of their arrival, where the position does not depend on the pod alone. All profiles share it: the
// queue uses one instance for the pods of all.
type queuePositions struct {
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

// queuePosition is the part of a pod's queue position that depends on its gang, and on the pod that it replaces.
type queuePosition struct {
	hasBegun, isReplacement bool
	// at is the gang's time, zero for that of the pod.
	at time.Time
}

// positionRecord is the position of a pod. gone says that it will not return to the queue.
type positionRecord struct {
	queuePosition
	gone bool
}

type departedPod struct {
	pod types.UID
	at  time.Time
}

// positionRetention is how long the position of a pod is kept after it last left the queue. The queue learns that later, and the sort key of a
// queued pod must not change.
const positionRetention = time.Minute

// recordPosition records the position of a pod that enters the queue, nil for a pod whose position depends on nothing else.
func (t *queuePositions) recordPosition(pod types.UID, as *queuePosition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.positions == nil {
		t.positions = map[types.UID]*positionRecord{}
	}
	if as == nil {
		delete(t.positions, pod)
		return
	}
	t.positions[pod] = &positionRecord{queuePosition: *as}
}

// maxQueuedPods is how many arrivals of a namespace are reported.
const maxQueuedPods = 16

// recordQueued records that a pod enters the queue.
func (t *queuePositions) recordQueued(pod *corev1.Pod, now time.Time) {
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

// recordFailure records a failed attempt of a pod, which moves it behind the pods that arrived in the meantime.
func (t *queuePositions) recordFailure(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, waits := t.queuedAt[pod]; waits {
		t.queuedAt[pod] = now
	}
}

// takeQueued returns some of the pods that entered the queue since the last call.
func (t *queuePositions) takeQueued() (news []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pods := range t.queued {
		news = append(news, pods...)
	}
	clear(t.queued)
	return news
}

// queuedSince returns when a pod first entered the queue or last failed, nil if it did not.
func (t *queuePositions) queuedSince(pod types.UID) *time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if at, ok := t.queuedAt[pod]; ok {
		return &at
	}
	return nil
}

// positionOf returns the position of a pod as it entered the queue.
func (t *queuePositions) positionOf(pod types.UID) (queuePosition, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if as, ok := t.positions[pod]; ok {
		return as.queuePosition, true
	}
	return queuePosition{}, false
}

// recordGone drops the position of a pod that will not return to the queue, after a while.
func (t *queuePositions) recordGone(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.queuedAt, pod)
	over := 0
	for over < len(t.gone) && now.Sub(t.gone[over].at) >= positionRetention {
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
