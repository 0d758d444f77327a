package advice

import "sync"

// turn is whose it is to be simulated: one pool's at a time. Those without advice come before those whose advice is only old,
// so that many pools do not keep one from its first. The zero value is ready.
type turn struct {
	mu    sync.Mutex
	taken bool
	// first are the pools that wait for their first advice.
	first map[string]bool
}

// take reports whether it is a pool's turn now. One that has taken it has to give it back.
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

// forget drops a pool that waits no more.
func (t *turn) forget(pool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.first, pool)
}
