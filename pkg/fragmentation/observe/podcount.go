package observe

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

const (
	// maxTouched is how many changed pods are recorded between two counts; beyond that all are visited.
	maxTouched = 1 << 14
	// recountInterval is after how many counts all pods are visited. An informer that replaces its whole store reports no pod that is missing
	// from the new one.
	recountInterval = 64
)

// podCount counts the pods of an informer's store incrementally: the request of a pod is parsed once, and unchanged pods are not visited. The
// zero value is empty, and visits all of them.
type podCount struct {
	fragmentation.PodCount
	seen  map[cache.ObjectName]*seenPod
	round int64
	// followed is the store whose changes are recorded.
	followed cache.Store
	touched  touchedPods
}

// seenPod is a pod, its request, and the last round that found it there.
type seenPod struct {
	uid   types.UID
	asks  fragmentation.PodRequest
	round int64
}

// touchedPods are the names of changed pods of a store. The informer adds them, under the lock of the store, and the scheduling cycle takes them.
type touchedPods struct {
	mu   sync.Mutex
	keys sets.Set[cache.ObjectName]
	// many is set if there were more than can be recorded.
	many bool
}

// recordPod is an index function: an informer calls it for each pod that it adds, changes or removes.
func (t *touchedPods) recordPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.many:
	case len(t.keys) >= maxTouched:
		t.keys, t.many = nil, true
	default:
		if t.keys == nil {
			t.keys = sets.Set[cache.ObjectName]{}
		}
		t.keys.Insert(cache.MetaObjectToName(pod))
	}
	return nil, nil
}

// takeKeys returns the names recorded since the last call, and false if they are incomplete.
func (t *touchedPods) takeKeys() (sets.Set[cache.ObjectName], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys, all := t.keys, !t.many
	t.keys, t.many = nil, false
	return keys, all
}

// countRound counts the pods of an informer's store, and ends a round.
func (c *podCount) countRound(informer cache.SharedIndexInformer) error {
	if err := c.catchUp(informer); err != nil {
		return err
	}
	c.EndRound()
	return nil
}

// catchUp counts the pods of an informer's store. From the second call on it only visits changed pods.
func (c *podCount) catchUp(informer cache.SharedIndexInformer) error {
	store := informer.GetStore()
	if c.followed != store {
		// Each count has an index of its own, since each is emptied by its own.
		index := fmt.Sprintf("fragmentation.g8s.host/pods-%p", c)
		if err := informer.AddIndexers(cache.Indexers{index: c.touched.recordPod}); err != nil {
			return fmt.Errorf("following the pods that are counted: %w", err)
		}
		c.followed = store
		c.touched.takeKeys()
		c.recountPods(store.List())
		return nil
	}
	keys, all := c.touched.takeKeys()
	if !all || len(keys)*4 >= len(c.seen) || c.round%recountInterval == 0 {
		c.recountPods(store.List())
		return nil
	}
	c.round++
	for key := range keys {
		if err := c.refreshPod(store, key); err != nil {
			return err
		}
	}
	return nil
}

// refreshPod counts the pod with a name, or removes it.
func (c *podCount) refreshPod(store cache.Store, key cache.ObjectName) error {
	obj, ok, err := store.GetByKey(key.String())
	if err != nil {
		return fmt.Errorf("counting pod %s: %w", key, err)
	}
	if pod, isPod := obj.(*corev1.Pod); ok && isPod {
		c.ensurePod(key, pod)
		return nil
	}
	if known := c.seen[key]; known != nil {
		delete(c.seen, key)
		c.RemovePod(known.asks)
	}
	return nil
}

// ensurePod counts a pod in the store. It replaces a predecessor of the same name.
func (c *podCount) ensurePod(key cache.ObjectName, pod *corev1.Pod) *seenPod {
	known := c.seen[key]
	if known != nil && known.uid == pod.UID {
		return known
	}
	if known != nil {
		c.RemovePod(known.asks)
	}
	known = &seenPod{uid: pod.UID, asks: PodRequestOf(pod)}
	c.seen[key] = known
	c.Add(known.asks)
	return known
}

// recountPods counts the pods of a store with a full scan. Pods that have ended are not in it.
func (c *podCount) recountPods(store []any) {
	if c.seen == nil {
		c.seen = map[cache.ObjectName]*seenPod{}
	}
	c.round++
	here := 0
	for _, obj := range store {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		if known := c.ensurePod(cache.MetaObjectToName(pod), pod); known.round != c.round {
			known.round = c.round
			here++
		}
	}
	if here < len(c.seen) {
		c.removeOthers()
	}
}

// removeOthers removes the pods that this round has not found.
func (c *podCount) removeOthers() {
	for key, known := range c.seen {
		if known.round != c.round {
			delete(c.seen, key)
			c.RemovePod(known.asks)
		}
	}
}
