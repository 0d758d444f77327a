package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turns are how pods stand that were put in the queue, as it was then, where more decides than the pod itself. The instances of all
// profiles share it: the queue asks one of them about the pods of all.
type turns struct {
	mu  sync.RWMutex
	all map[types.UID]*standing
	// gone are the pods that come to the queue no more, in the order in which that was told.
	gone []departed
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
