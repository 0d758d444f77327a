package coscheduling

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// turns are the queue positions of pods as of their arrival, where the position does not depend on the pod alone. All profiles share it: the
// queue uses one instance for the pods of all.
type turns struct {
	mu  sync.RWMutex
	all map[types.UID]*standing
	// gone are the pods that will not return to the queue, in the order in which that was reported.
	gone []departed
	// came are when waiting pods first entered the queue, or last failed. The queue's own record of that is not accessible.
	came map[types.UID]time.Time
	// news are the latest arrivals, by namespace.
	news map[string][]*corev1.Pod
	// called is the pod to be tried next, by its address.
	called atomic.Pointer[corev1.Pod]
}

// turn is the part of a pod's queue position that depends on its gang, and on the pod that it replaces.
type turn struct {
	begun, resumes bool
	// at is the gang's time, zero for that of the pod.
	at time.Time
}

// standing is the position of a pod. gone says that it will not return to the queue.
type standing struct {
	turn
	gone bool
}

type departed struct {
	pod types.UID
	at  time.Time
}

// lingers is how long the position of a pod is kept after it last left the queue. The queue learns that later, and the sort key of a
// queued pod must not change.
const lingers = time.Minute

// enqueue records the position of a pod that enters the queue, nil for a pod whose position depends on nothing else.
func (t *turns) enqueue(pod types.UID, as *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[types.UID]*standing{}
	}
	if as == nil {
		delete(t.all, pod)
		return
	}
	t.all[pod] = &standing{turn: *as}
}

// mostNews is how many arrivals of a namespace are reported.
const mostNews = 16

// comes records that a pod enters the queue.
func (t *turns) comes(pod *corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.came == nil {
		t.came, t.news = map[types.UID]time.Time{}, map[string][]*corev1.Pod{}
	}
	if _, ok := t.came[pod.UID]; !ok {
		t.came[pod.UID] = now
	}
	if known := t.news[pod.Namespace]; len(known) < mostNews {
		t.news[pod.Namespace] = append(known, pod)
	}
}

// fails records a failed attempt of a pod, which moves it behind the pods that arrived in the meantime.
func (t *turns) fails(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, waits := t.came[pod]; waits {
		t.came[pod] = now
	}
}

// takeNews returns some of the pods that entered the queue since the last call.
func (t *turns) takeNews() (news []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pods := range t.news {
		news = append(news, pods...)
	}
	clear(t.news)
	return news
}

// since returns when a pod first entered the queue or last failed, nil if it did not.
func (t *turns) since(pod types.UID) *time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if at, ok := t.came[pod]; ok {
		return &at
	}
	return nil
}

// of returns the position of a pod as it entered the queue.
func (t *turns) of(pod types.UID) (turn, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if as, ok := t.all[pod]; ok {
		return as.turn, true
	}
	return turn{}, false
}

// leave drops the position of a pod that will not return to the queue, after a while.
func (t *turns) leave(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.came, pod)
	over := 0
	for over < len(t.gone) && now.Sub(t.gone[over].at) >= lingers {
		if left := t.gone[over].pod; t.all[left] != nil && t.all[left].gone {
			delete(t.all, left)
		}
		over++
	}
	t.gone = t.gone[over:]
	if as := t.all[pod]; as != nil && !as.gone {
		as.gone = true
		t.gone = append(t.gone, departed{pod, now})
	}
}
