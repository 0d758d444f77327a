// Package backpressure keeps the scheduler from deciding faster than the API server binds. Without it, decisions pile
// up as bindings that wait for each other: they take memory, each pod's binding takes longer the more there are, and a
// pod of higher priority that comes meanwhile stands behind all of them. Pods that have not been decided upon wait in
// the scheduler's queue instead, in order of priority.
package backpressure

import (
	"sync"
	"time"
)

// MaxWait bounds how long bindings hold up the next pod. Bindings that hang, such as on the slow webhook of one
// namespace, thus slow the others down to ten pods a second and do not stop them. An API server that takes longer than this to
// end any of those under way is not hurt by ten more a second.
const MaxWait = 100 * time.Millisecond

// Gate counts the bindings under way, and shows their number, their limit and the time waited for them on /metrics. A process has
// one. nil is a gate that is always open. Its methods may be called from many goroutines.
type Gate struct {
	mu       sync.Mutex
	limit    *limiter
	underway int
	// peak is the most that were under way since there were fewer than the limit.
	peak   int
	opened chan struct{} // closed when the gate opens, nil while nobody waits
}

// NewGate returns a gate that is open while fewer bindings are under way than are worth having, which it learns from what they
// take, and fewer than most, at least one.
//
// The members of a gang are bound at once, which is more than that: then it opens when a quarter of them are bound. The API server
// would have nothing to do while the members of the next gang are decided upon, which are not bound before the last of them is.
func NewGate(most int) *Gate {
	registerMetrics()
	return &Gate{limit: newLimiter(most)}
}

// Begin notes that a binding has begun, and returns what is to be called once when it has succeeded or failed. It never waits:
// what is decided is bound.
func (g *Gate) Begin() (end func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	began, rank := time.Now(), g.underway+1
	g.add(1)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		now := time.Now()
		g.limit.ended(now, now.Sub(began), rank)
		limits.Set(float64(g.limit.now()))
		g.add(-1)
	}
}

// add is called with the lock.
func (g *Gate) add(n int) {
	g.underway += n
	bindings.Set(float64(g.underway))
	if g.peak = max(g.peak, g.underway); g.underway < g.limit.now() {
		g.peak = g.underway
	}
	if g.isOpen() && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *Gate) isOpen() bool { return g.underway < max(g.limit.now(), 3*g.peak/4) }

// Wait returns when the gate is open, at the latest after [MaxWait].
func (g *Gate) Wait() {
	if g == nil {
		return
	}
	opened := g.whenOpen()
	if opened == nil {
		return
	}
	start := time.Now()
	select {
	case <-opened:
	case <-time.After(MaxWait):
	}
	waits.Observe(time.Since(start).Seconds())
}

// whenOpen returns what is closed once the gate opens, nil if it is open.
func (g *Gate) whenOpen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return nil
	}
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	return g.opened
}
