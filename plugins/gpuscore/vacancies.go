package gpuscore

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/devices"
)

// patience is how long a node is kept that nobody takes. The pods it is kept for may come no more, and a scheduler that
// has little to do learns that late.
const patience = 30 * time.Minute

// vacancies remembers since when each node is kept. All pods look at one clock: which nodes are kept differs between them,
// by what they tolerate and ask for, and if each pod set the clocks by its own, none would ever run out. It forgets with a
// restart, which begins anew. The zero value has seen no node.
type vacancies struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// follow has the clock of a node begin anew when a pod leaves it, which no attempt need see: the pod may have come
// and gone between two of them. A handle without informers has no pods that leave.
func (v *vacancies) follow(factory informers.SharedInformerFactory) error {
	if factory == nil {
		return nil
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: v.left}); err != nil {
		return fmt.Errorf("watching pods that leave nodes: %w", err)
	}
	return nil
}

// left hears of a pod that is gone.
func (v *vacancies) left(obj any) {
	pod, ok := devices.Last[*corev1.Pod](obj)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if asked := askOf(pod); !asked.none() {
		v.stop(pod.Spec.NodeName)
	}
}

func (v *vacancies) stop(node string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.since, node)
}

// sweep stops the clocks of nodes that are not vacant any more.
func (v *vacancies) sweep(vacant func(node string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for node := range v.since {
		if !vacant(node) {
			delete(v.since, node)
		}
	}
}

// expire takes those nodes out of the idle ones that have been kept for too long. The clocks of the others run from now on,
// if they do not yet.
func (v *vacancies) expire(idle sets.Set[string], now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since == nil {
		v.since = map[string]time.Time{}
	}
	for node := range idle {
		at, known := v.since[node]
		if !known {
			v.since[node] = now
		} else if now.Sub(at) >= patience {
			idle.Delete(node)
		}
	}
}
