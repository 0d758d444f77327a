// Package backpressure keeps the scheduler from deciding faster than the API server binds. Without it, decisions pile
// up as bindings that wait for each other: they take memory, each pod's binding takes longer the more there are, and a
// pod of higher priority that comes meanwhile stands behind all of them. Pods that have not been decided upon wait in
// the scheduler's queue instead, in order of priority.
package backpressure

import "sync"

// Gate counts the bindings under way. nil is a gate that is always open. Its methods may be called from many
// goroutines.
type Gate struct {
	limit int

	mu       sync.Mutex
	room     sync.Cond
	underway int
}

// NewGate returns a gate that is open while fewer bindings than limit are under way, at least one.
func NewGate(limit int) *Gate {
	g := &Gate{limit: max(limit, 1)}
	g.room.L = &g.mu
	return g
}

// Begin notes that a binding has begun. It never waits: what is decided is bound.
func (g *Gate) Begin() { g.add(1) }

// End notes that a binding has succeeded or failed.
func (g *Gate) End() { g.add(-1) }

func (g *Gate) add(n int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underway += n; g.underway < g.limit {
		g.room.Signal()
	}
}

// Wait returns when the gate is open. Every binding ends, at the latest with the scheduler, so it always returns.
func (g *Gate) Wait() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.underway >= g.limit {
		g.room.Wait()
	}
}
