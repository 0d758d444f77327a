// Package backpressure keeps the scheduler from deciding faster than the API server binds. Without it, decisions pile up as bindings that wait for
// each other: they take memory, each binding takes longer the more there are, and a pod of higher priority that arrives meanwhile is behind all of
// them. Instead, undecided pods wait in the scheduler's queue, by priority.
package backpressure

import (
	"slices"
	"sync"
	"time"
)

// MaxWait bounds how long bindings delay the next pod. Thus hanging bindings do not stop other pods before they are detected. An API server that
// takes longer than this for every binding is not harmed by ten more per second.
const MaxWait = 100 * time.Millisecond

// Gate counts the bindings in flight and exports their number, limit and wait time on /metrics. A process has one gate. A nil gate is always open. It
// is safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	limit    *limiter
	most     int
	underway []*binding // in the order in which they began
	stuck    int        // how many of them are stuck
	// peak is the maximum of blocking bindings since they were last below the limit.
	peak   int
	opened chan struct{} // closed when the gate opens, nil without waiters
}

// binding is a binding in flight.
type binding struct {
	began     time.Time
	rank      int // the number of blocking bindings, including it, when it began
	overtaken int // how many later bindings ended in a small part of its time
	stuck     bool
}

// NewGate returns a gate that is open while the bindings in flight are below the useful number, which it learns from their duration, and below most,
// at least one.
//
// A gang binds all members at once, which exceeds the limit: then the gate opens when a quarter of them are bound. Otherwise the API server would
// idle while the next gang is decided, whose members are bound only after the last decision.
func NewGate(most int) *Gate {
	registerMetrics()
	return &Gate{limit: newLimiter(most), most: max(most, 1)}
}

// BeginBinding records the begin of a binding, and returns a function to call once when it has succeeded or failed. It never blocks: every decision is
// bound.
func (g *Gate) BeginBinding() (end func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	begun := &binding{began: time.Now(), rank: g.countBlocking() + 1}
	g.underway = append(g.underway, begun)
	g.updateState()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.endBinding(begun)
	}
}

// endBinding removes a binding. The caller holds the lock.
func (g *Gate) endBinding(done *binding) {
	at := slices.Index(g.underway, done)
	g.underway = slices.Delete(g.underway, at, at+1)
	now := time.Now()
	if done.stuck { // its duration reflects what it hung on
		g.stuck--
	} else {
		g.limit.recordBinding(now, now.Sub(done.began), done.rank)
	}
	g.markOvertaken(g.underway[:at], now, now.Sub(done.began))
	g.updateState()
}

// markOvertaken records that a binding ended which began after the earlier ones and took the given time. An API server takes about as long for later
// bindings and ends them later. So a binding that is overtaken repeatedly, by ones that took a tenth of its time, does not wait for others: it hangs,
// for example on a slow webhook of its namespace, and no longer blocks other pods. At most most bindings are marked, so that pods of that namespace
// cannot pile up without limit.
func (g *Gate) markOvertaken(earlier []*binding, now time.Time, took time.Duration) {
	for _, each := range earlier {
		if 10*took >= now.Sub(each.began) {
			continue
		}
		if each.overtaken++; each.overtaken >= 2*g.limit.limit && !each.stuck && g.stuck < g.most {
			each.stuck = true
			g.stuck++
		}
	}
}

// countBlocking returns the number of blocking bindings.
func (g *Gate) countBlocking() int { return len(g.underway) - g.stuck }

// updateState updates the metrics and opens the gate if possible. The caller holds the lock.
func (g *Gate) updateState() {
	bindings.Set(float64(len(g.underway)))
	overtaken.Set(float64(g.stuck))
	limits.Set(float64(g.limit.currentLimit()))
	if g.peak = max(g.peak, g.countBlocking()); g.countBlocking() < g.limit.currentLimit() {
		g.peak = g.countBlocking()
	}
	if g.isOpen() && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *Gate) isOpen() bool { return g.countBlocking() < max(g.limit.currentLimit(), 3*g.peak/4) }

// WaitUntilOpen blocks until the gate is open, for at most [MaxWait].
func (g *Gate) WaitUntilOpen() {
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

// whenOpen returns a channel that is closed when the gate opens, nil if it is open.
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
