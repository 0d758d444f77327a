package advice

import "sync"

// simulationSlot is the slot for simulations: one pool at a time. Pools without advice come before those whose advice is only outdated, so that many pools do
// not delay a first advice. The zero value is ready.
type simulationSlot struct {
	mu    sync.Mutex
	taken bool
	// first are the pools that wait for their first advice.
	first map[string]bool
}

// tryAcquire acquires the slot for a pool and reports whether it succeeded. The caller must release it.
func (t *simulationSlot) tryAcquire(pool string, first bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken || !first && len(t.first) > 0 {
		if first {
			if t.first == nil {
				t.first = map[string]bool{}
			}
			t.first[pool] = true
		}
		return false
	}
	delete(t.first, pool)
	t.taken = true
	return true
}

func (t *simulationSlot) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
}

// forgetPool removes a pool that no longer waits.
func (t *simulationSlot) forgetPool(pool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.first, pool)
}
