package gpuscore

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// patience is how long a node is kept that nobody takes. The pods it is kept for may come no more, and a scheduler that
// has little to do learns that late.
const patience = 30 * time.Minute

// vacancies remembers since when nodes are kept, by pool and name. It forgets with a restart, which begins anew. The zero
// value has seen no node.
type vacancies struct {
	mu    sync.Mutex
	since map[string]map[string]time.Time
}

// expire takes those nodes out of the idle ones of a pool that have been kept for too long.
func (v *vacancies) expire(pool string, idle sets.Set[string], now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	since := make(map[string]time.Time, idle.Len())
	for node := range idle {
		at, known := v.since[pool][node]
		if !known {
			at = now
		}
		since[node] = at
		if now.Sub(at) >= patience {
			idle.Delete(node)
		}
	}
	if v.since == nil {
		v.since = map[string]map[string]time.Time{}
	}
	v.since[pool] = since
}

// forget notes that no node of a pool is kept.
func (v *vacancies) forget(pool string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.since, pool)
}
