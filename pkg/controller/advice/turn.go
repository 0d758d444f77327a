package advice

import "sync"

// turn is the slot for simulations: one pool at a time. Pools without advice come before those whose advice is only outdated, so that many pools do
// not delay a first advice. The zero value is ready.
type turn struct {
	mu    sync.Mutex
	taken bool
	// first are the pools that wait for their first advice.
	first map[string]bool
}

// take acquires the slot for a pool and reports whether it succeeded. The caller must release it.
func (t *turn) take(pool string, first bool) bool {
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

func (t *turn) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
}

// forget removes a pool that no longer waits.
func (t *turn) forget(pool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.first, pool)
}
