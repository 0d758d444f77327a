package gpureserve

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
)

// patience is how long a node is kept that nobody takes. The pods it is kept for may come no more, and a scheduler that
// has little to do learns that late.
const patience = 30 * time.Minute

// idleTimeouts remember since when each node is kept. All pods look at one clock: which nodes are kept differs between
// them, by what they tolerate and ask for, and if each pod set the clocks by its own, none would ever run out. A restart
// forgets them. The zero value has seen no node.
type idleTimeouts struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// follow has the clock of a node begin again when a pod leaves it, which no attempt need see: the pod may have come
// and gone between two of them. A handle without informers has no pods that leave.
func (t *idleTimeouts) follow(factory informers.SharedInformerFactory) error {
	if factory == nil {
		return nil
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: t.left}); err != nil {
		return fmt.Errorf("watching pods that leave nodes: %w", err)
	}
	return nil
}

// left hears of a pod that is gone.
func (t *idleTimeouts) left(obj any) {
	pod, ok := devices.Last[*corev1.Pod](obj)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if asked := observe.AskOf(pod); !asked.NoCards() {
		t.stop(pod.Spec.NodeName)
	}
}

func (t *idleTimeouts) stop(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.since, node)
}

// sweep stops the clocks of nodes that are not idle any more.
func (t *idleTimeouts) sweep(isIdle func(node string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for node := range t.since {
		if !isIdle(node) {
			delete(t.since, node)
		}
	}
}

// expire takes those nodes out of the idle ones that have been kept for too long. The clocks of the others run from now on,
// if they do not yet.
func (t *idleTimeouts) expire(idle sets.Set[string], now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[string]time.Time{}
	}
	for node := range idle {
		at, known := t.since[node]
		if !known {
			t.since[node] = now
		} else if now.Sub(at) >= patience {
			idle.Delete(node)
		}
	}
}
