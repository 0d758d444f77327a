// Package backpressure keeps the scheduler from deciding faster than the API server binds. Without it, decisions pile
// up as bindings that wait for each other: they take memory, each pod's binding takes longer the more there are, and a
// pod of higher priority that comes meanwhile stands behind all of them. Pods that have not been decided upon wait in
// the scheduler's queue instead, in order of priority.
package backpressure

import (
	"slices"
	"sync"
	"time"
)

// MaxWait bounds how long bindings hold up the next pod. Bindings that hang thus do not stop the others before it shows that they
// hang. An API server that takes longer than this to end any of those under way is not hurt by ten more a second.
const MaxWait = 100 * time.Millisecond

// Gate counts the bindings under way, and shows their number, their limit and the time waited for them on /metrics. A process has
// one. nil is a gate that is always open. Its methods may be called from many goroutines.
type Gate struct {
	mu       sync.Mutex
	limit    *limiter
	most     int
	underway []*binding // in the order in which they began
	stuck    int        // how many of them are
	// peak is the most that held up others since fewer than the limit did.
	peak   int
	opened chan struct{} // closed when the gate opens, nil while nobody waits
}

// binding is one that is under way.
type binding struct {
	began     time.Time
	rank      int // it is one of so many that hold up others, counted when it began
	overtaken int // by so many that began later and have ended, in a small part of its time
	stuck     bool
}

// NewGate returns a gate that is open while fewer bindings are under way than are worth having, which it learns from what they
// take, and fewer than most, at least one.
//
// The members of a gang are bound at once, which is more than that: then it opens when a quarter of them are bound. The API server
// would have nothing to do while the members of the next gang are decided upon, which are not bound before the last of them is.
func NewGate(most int) *Gate {
	registerMetrics()
	return &Gate{limit: newLimiter(most), most: max(most, 1)}
}

// Begin notes that a binding has begun, and returns what is to be called once when it has succeeded or failed. It never waits:
// what is decided is bound.
func (g *Gate) Begin() (end func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	begun := &binding{began: time.Now(), rank: g.counted() + 1}
	g.underway = append(g.underway, begun)
	g.changed()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended(begun)
	}
}

// ended is called with the lock.
func (g *Gate) ended(done *binding) {
	at := slices.Index(g.underway, done)
	g.underway = slices.Delete(g.underway, at, at+1)
	now := time.Now()
	if done.stuck { // what it took tells of what it hung on
		g.stuck--
	} else {
		g.limit.ended(now, now.Sub(done.began), done.rank)
	}
	g.overtake(g.underway[:at], now, now.Sub(done.began))
	g.changed()
}

// overtake notes that a binding has ended which began after these and took so long. An API server takes about as long for those that
// come later, and ends them later. So one that was overtaken again and again, by those that took a tenth of its time, does not wait
// for others: it hangs, such as on the slow webhook of its namespace, and holds up nobody any more. No more than most of them are
// told apart, so that the pods of that namespace do not pile up without end.
func (g *Gate) overtake(earlier []*binding, now time.Time, took time.Duration) {
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

// counted returns how many of the bindings under way hold up others.
func (g *Gate) counted() int { return len(g.underway) - g.stuck }

// changed is called with the lock.
func (g *Gate) changed() {
	bindings.Set(float64(len(g.underway)))
	overtaken.Set(float64(g.stuck))
	limits.Set(float64(g.limit.now()))
	if g.peak = max(g.peak, g.counted()); g.counted() < g.limit.now() {
		g.peak = g.counted()
	}
	if g.isOpen() && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *Gate) isOpen() bool { return g.counted() < max(g.limit.now(), 3*g.peak/4) }

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
