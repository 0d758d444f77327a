package coscheduling

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// turns are how pods stand that were put in the queue, as it was then, where more decides than the pod itself. The instances of all
// profiles share it: the queue asks one of them about the pods of all.
type turns struct {
	mu  sync.RWMutex
	all map[types.UID]*standing
	// gone are the pods that come to the queue no more, in the order in which that was told.
	gone []departed
	// came are when pods that wait were first put in the queue, or their last attempt failed: what the queue itself notes of that is its own
	// to read.
	came map[types.UID]time.Time
	// news are the last that were put in the queue, by namespace.
	news map[string][]*corev1.Pod
	// called is the pod that is to be tried next, by its address.
	called atomic.Pointer[corev1.Pod]
}

// turn is what of a pod's position in the queue depends on its gang, and on whom it comes in the place of.
type turn struct {
	begun, resumes bool
	// at is the gang's time, zero for that of the pod.
	at time.Time
}

// standing is the turn of a pod. gone says that it comes to the queue no more.
type standing struct {
	turn
	gone bool
}

type departed struct {
	pod types.UID
	at  time.Time
}

// lingers is how long the turn of a pod is kept that comes to the queue no more. The queue hears of that in its own time, and what it
// compares must not change of a pod that is in it.
const lingers = time.Minute

// enqueue notes the turn of a pod that is put in the queue, nil for one that stands there by itself.
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

// mostNews is how many pods of a namespace are told of that were put in the queue.
const mostNews = 16

// comes notes that a pod is put in the queue.
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

// fails notes that an attempt of a pod has failed, after which it stands behind those that have come meanwhile.
func (t *turns) fails(pod types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, waits := t.came[pod]; waits {
		t.came[pod] = now
	}
}

// takeNews returns some of the pods that were put in the queue since it was called last.
func (t *turns) takeNews() (news []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pods := range t.news {
		news = append(news, pods...)
	}
	clear(t.news)
	return news
}

// since is when a pod was first put in the queue or failed last, nil for one that was not.
func (t *turns) since(pod types.UID) *time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if at, ok := t.came[pod]; ok {
		return &at
	}
	return nil
}

// of returns the turn of a pod as it was put in the queue.
func (t *turns) of(pod types.UID) (turn, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if as, ok := t.all[pod]; ok {
		return as.turn, true
	}
	return turn{}, false
}

// leave has the turn of a pod forgotten that comes to the queue no more, after a while.
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
