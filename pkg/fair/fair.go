// Package fair shares scarce resources, such as slots or bytes, among callers. A caller that asks for much waits behind its own requests and not in
// front of others: waiting callers are served round-robin.
package fair

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of a [Gate].
type Limits struct {
	// Total bounds what is held at once, and Each the part of one caller.
	Total, Each int
	// Waiting bounds the waiting requests of one caller.
	Waiting int
	// ReclaimAfter is how long a caller may hold reclaimable capacity that others wait for.
	ReclaimAfter time.Duration
}

// FullError means that a caller has reached its limit of waiting requests.
type FullError struct{ Waiting int }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d requests of yours wait already", e.Waiting)
}

// Gate admits requests within its limits.
type Gate struct {
	limits Limits

	mu      sync.Mutex
	held    int
	callers map[string]*caller
	// queue are the callers with waiting requests, the next one first.
	queue []*caller
	// holders are the reclaimable holders, the longest first.
	holders []*ticket
	// reclaimTimer fires when the first holder has held long enough; nil while nothing waits for that.
	reclaimTimer *time.Timer
}

type caller struct {
	name    string
	held    int
	waiting []*ticket
}

// ticket is a waiting request.
type ticket struct {
	size int
	// admitted is closed when the size is held.
	admitted chan struct{}
	own      *caller
	// takeBack ends the use of the capacity; nil if it cannot be reclaimed.
	takeBack func()
	since    time.Time
}

// New returns a Gate with nothing held.
func New(limits Limits) *Gate { return &Gate{limits: limits, callers: map[string]*caller{}} }

// Enter waits until a caller holds size more, capped at the caller's limit, and returns the release function, which may be called more than once. It
// returns a [FullError] when too many of the caller's requests wait, and ctx's error when it ends.
func (g *Gate) Enter(ctx context.Context, who string, size int) (leave func(), err error) {
	return g.EnterUntil(ctx, who, size, nil)
}

// EnterUntil is Enter for reclaimable capacity: when others wait, takeBack is called in its own goroutine after the capacity has been held for
// [Limits.ReclaimAfter], first for the caller that holds most, then for the oldest. The capacity remains held until it is released.
func (g *Gate) EnterUntil(ctx context.Context, who string, size int, takeBack func()) (leave func(), err error) {
	size = max(1, min(size, g.limits.Each, g.limits.Total))
	own, mine, err := g.enqueueTicket(who, size, takeBack)
	if err != nil {
		return nil, err
	}
	leave = sync.OnceFunc(func() { g.leaveGate(own, mine) })
	select {
	case <-mine.admitted:
		return leave, nil
	default:
	}
	select {
	case <-mine.admitted:
		return leave, nil
	case <-ctx.Done():
		g.giveUp(own, mine)
		return nil, ctx.Err()
	}
}

func (g *Gate) enqueueTicket(who string, size int, takeBack func()) (*caller, *ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.callers[who]
	if own == nil {
		own = &caller{name: who}
		g.callers[who] = own
	}
	mine := &ticket{size: size, admitted: make(chan struct{}), own: own, takeBack: takeBack}
	own.waiting = append(own.waiting, mine)
	if len(own.waiting) == 1 {
		g.queue = append(g.queue, own)
	}
	g.admitNext()
	if len(own.waiting) > g.limits.Waiting {
		own.waiting = own.waiting[:len(own.waiting)-1] // the newest
		g.dropIdle(own)
		return nil, nil, &FullError{g.limits.Waiting}
	}
	return own, mine, nil
}

// admitNext admits waiting requests in turn. A request that waits for capacity held by others is not overtaken, or it might wait forever; one that waits
// for its own caller's capacity blocks no others.
func (g *Gate) admitNext() {
	for i := 0; i < len(g.queue); {
		next := g.queue[i]
		first := next.waiting[0]
		if next.held+first.size > g.limits.Each {
			i++
			continue
		}
		if g.held+first.size > g.limits.Total {
			g.reclaimLongest()
			return
		}
		if first.takeBack != nil {
			first.since = time.Now()
			g.holders = append(g.holders, first)
		}
		g.held += first.size
		next.held += first.size
		close(first.admitted)
		next.waiting = next.waiting[1:]
		g.queue = slices.Delete(g.queue, i, i+1)
		if len(next.waiting) > 0 {
			g.queue = append(g.queue, next)
		}
	}
}

// reclaimLongest reclaims capacity that has been held long enough, now or once it has. A caller that finishes in time loses nothing; one that does not must
// not block others, under however many names.
func (g *Gate) reclaimLongest() {
	if len(g.holders) == 0 || g.reclaimTimer != nil {
		return
	}
	first := g.holders[0]
	if left := g.limits.ReclaimAfter - time.Since(first.since); left > 0 {
		g.reclaimTimer = time.AfterFunc(left, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.reclaimTimer = nil
			g.admitNext()
		})
		return
	}
	chosen := 0
	for i, held := range g.holders {
		if time.Since(held.since) >= g.limits.ReclaimAfter && held.own.held > g.holders[chosen].own.held {
			chosen = i
		}
	}
	go g.holders[chosen].takeBack()
	g.holders = slices.Delete(g.holders, chosen, chosen+1)
}

func (g *Gate) leaveGate(own *caller, mine *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(own, mine)
	g.dropIdle(own)
	g.admitNext()
}

// giveUp withdraws a ticket, or releases what it got at the same moment.
func (g *Gate) giveUp(own *caller, mine *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(own.waiting, mine); i >= 0 {
		own.waiting = slices.Delete(own.waiting, i, i+1)
	} else {
		g.giveBack(own, mine)
	}
	g.dropIdle(own)
	g.admitNext()
}

func (g *Gate) giveBack(own *caller, mine *ticket) {
	g.held -= mine.size
	own.held -= mine.size
	g.holders = slices.DeleteFunc(g.holders, func(t *ticket) bool { return t == mine })
}

// dropIdle removes a caller without waiting requests from the turns, and one that also holds nothing altogether.
func (g *Gate) dropIdle(own *caller) {
	if len(own.waiting) > 0 {
		return
	}
	g.queue = slices.DeleteFunc(g.queue, func(c *caller) bool { return c == own })
	if own.held == 0 && g.callers[own.name] == own {
		delete(g.callers, own.name)
	}
}
