// Package fair shares what is scarce among callers: places, or bytes. Whoever asks for much waits behind themselves, and
// not in front of others: those who wait are served in turn, one of each caller.
package fair

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Limits of a [Gate].
type Limits struct {
	// Total is how much may be held at once, and Each how much of it by one caller.
	Total, Each int
	// Waiting is how many may wait of one caller.
	Waiting int
}

// FullError says that a caller has as many waiting as may wait.
type FullError struct{ Waiting int }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d requests of yours wait already", e.Waiting)
}

// Gate lets in as many as its limits allow.
type Gate struct {
	limits Limits

	mu      sync.Mutex
	held    int
	callers map[string]*caller
	// turns are the callers of whom somebody waits, who is served next the first.
	turns []*caller
}

type caller struct {
	name    string
	held    int
	waiting []*ticket
}

// ticket is one who waits.
type ticket struct {
	size int
	// admitted is closed when the size is held.
	admitted chan struct{}
}

// New returns a Gate through which nobody has gone.
func New(limits Limits) *Gate { return &Gate{limits: limits, callers: map[string]*caller{}} }

// Enter waits until a caller holds so much more, up to as much as one may hold, and returns what gives it back, which
// may be called more than once. It returns a [FullError] when too many of the caller wait, and ctx's error when it ends.
func (g *Gate) Enter(ctx context.Context, who string, size int) (leave func(), err error) {
	size = max(1, min(size, g.limits.Each, g.limits.Total))
	own, mine, err := g.wait(who, size)
	if err != nil {
		return nil, err
	}
	leave = sync.OnceFunc(func() { g.leave(own, size) })
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

func (g *Gate) wait(who string, size int) (*caller, *ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.callers[who]
	if own == nil {
		own = &caller{name: who}
		g.callers[who] = own
	}
	mine := &ticket{size: size, admitted: make(chan struct{})}
	own.waiting = append(own.waiting, mine)
	if len(own.waiting) == 1 {
		g.turns = append(g.turns, own)
	}
	g.admit()
	if len(own.waiting) > g.limits.Waiting {
		own.waiting = own.waiting[:len(own.waiting)-1] // the newest
		g.forget(own)
		return nil, nil, &FullError{g.limits.Waiting}
	}
	return own, mine, nil
}

// admit lets in who may, in turn. One who waits for room that others hold is not overtaken, or they might wait for ever;
// one who waits for what they hold themselves keeps nobody back.
func (g *Gate) admit() {
	for i := 0; i < len(g.turns); {
		next := g.turns[i]
		first := next.waiting[0]
		if next.held+first.size > g.limits.Each {
			i++
			continue
		}
		if g.held+first.size > g.limits.Total {
			return
		}
		g.held += first.size
		next.held += first.size
		close(first.admitted)
		next.waiting = next.waiting[1:]
		g.turns = slices.Delete(g.turns, i, i+1)
		if len(next.waiting) > 0 {
			g.turns = append(g.turns, next)
		}
	}
}

func (g *Gate) leave(own *caller, size int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held -= size
	own.held -= size
	g.forget(own)
	g.admit()
}

// giveUp takes back a ticket, or what it got at the same moment.
func (g *Gate) giveUp(own *caller, mine *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(own.waiting, mine); i >= 0 {
		own.waiting = slices.Delete(own.waiting, i, i+1)
	} else {
		g.held -= mine.size
		own.held -= mine.size
	}
	g.forget(own)
	g.admit()
}

// forget drops a caller who waits for nothing from the turns, and one who holds nothing either altogether.
func (g *Gate) forget(own *caller) {
	if len(own.waiting) > 0 {
		return
	}
	g.turns = slices.DeleteFunc(g.turns, func(c *caller) bool { return c == own })
	if own.held == 0 && g.callers[own.name] == own {
		delete(g.callers, own.name)
	}
}
