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

// maxKeepTime is how long an unused node is kept. The pods it is kept for may never come, and a scheduler with little to do learns that late.
const maxKeepTime = 30 * time.Minute

// idleTimeouts record since when each node is kept. All pods share one clock: which nodes are kept differs between pods, by their tolerations
// and requests, and if each pod had its own clocks, none would ever expire. A restart resets them. The zero value is empty.
type idleTimeouts struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// watchPods restarts the clock of a node when a pod leaves it, which no attempt may have seen: the pod may have come and gone between two attempts.
// A handle without informers has no such events.
func (t *idleTimeouts) watchPods(factory informers.SharedInformerFactory) error {
	if factory == nil {
		return nil
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: t.handlePodDelete}); err != nil {
		return fmt.Errorf("watching pods that leave nodes: %w", err)
	}
	return nil
}

// handlePodDelete handles the deletion of a pod.
func (t *idleTimeouts) handlePodDelete(obj any) {
	pod, ok := devices.LastKnown[*corev1.Pod](obj)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if asked := observe.PodRequestOf(pod); !asked.NeedsNoGPUs() {
		t.stopClock(pod.Spec.NodeName)
	}
}

func (t *idleTimeouts) stopClock(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.since, node)
}

// sweepClocks stops the clocks of nodes that are no longer idle.
func (t *idleTimeouts) sweepClocks(isIdle func(node string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for node := range t.since {
		if !isIdle(node) {
			delete(t.since, node)
		}
	}
}

// expireNodes removes the nodes that have been kept for too long from the idle ones, and starts the clocks of the others.
func (t *idleTimeouts) expireNodes(idle sets.Set[string], now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[string]time.Time{}
	}
	for node := range idle {
		at, known := t.since[node]
		if !known {
			t.since[node] = now
		} else if now.Sub(at) >= maxKeepTime {
			idle.Delete(node)
		}
	}
}
