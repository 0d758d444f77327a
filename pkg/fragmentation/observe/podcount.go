package observe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// podCount counts the pods of an informer's store by what has changed since the last time: what a pod asks for is read
// once. The zero value has seen no pod.
type podCount struct {
	fragmentation.PodCount
	seen  map[types.UID]*seenPod
	round int64
}

// seenPod is a pod, which asks for cards or not, and the last round that found it there.
type seenPod struct {
	asks  fragmentation.Ask
	round int64
}

// update counts the pods of a store. Pods that have ended are not in it.
func (c *podCount) update(store []any) {
	if c.seen == nil {
		c.seen = map[types.UID]*seenPod{}
	}
	c.round++
	here := 0
	for _, obj := range store {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		known := c.seen[pod.UID]
		if known == nil {
			known = &seenPod{asks: AskOf(pod)}
			c.seen[pod.UID] = known
			c.Add(known.asks)
		}
		if known.round != c.round {
			known.round = c.round
			here++
		}
	}
	if here < len(c.seen) {
		c.removeOthers()
	}
	c.Turn()
}

// removeOthers takes out the pods that this round has not found.
func (c *podCount) removeOthers() {
	for uid, known := range c.seen {
		if known.round != c.round {
			delete(c.seen, uid)
			c.Remove(known.asks)
		}
	}
}
