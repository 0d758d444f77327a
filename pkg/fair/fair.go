// Package fair shares what is scarce among callers: places, or bytes. Whoever asks for much waits behind themselves, and
// not in front of others: those who wait are served in turn, one of each caller.
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
	// Total is how much may be held at once, and Each how much of it by one caller.
	Total, Each int
	// Waiting is how many may wait of one caller.
	Waiting int
	// Patience is how long one may hold what others wait for, if it can be taken back.
	Patience time.Duration
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
	// holders are those from whom it can be taken back, who has held longest the first.
	holders []*ticket
	// again looks for one of them when the first has held long enough; nil while nobody waits for that.
	again *time.Timer
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
	own      *caller
	// takeBack ends what it is held for; nil if nothing does.
	takeBack func()
	since    time.Time
}

// New returns a Gate through which nobody has gone.
func New(limits Limits) *Gate { return &Gate{limits: limits, callers: map[string]*caller{}} }

// Enter waits until a caller holds so much more, up to as much as one may hold, and returns what gives it back, which
// may be called more than once. It returns a [FullError] when too many of the caller wait, and ctx's error when it ends.
func (g *Gate) Enter(ctx context.Context, who string, size int) (leave func(), err error) {
	return g.EnterUntil(ctx, who, size, nil)
}

// EnterUntil is Enter for what can be taken back: when others wait for room, takeBack is called, in a goroutine of its own,
// for what has been held for [Limits.Patience], that of who holds most first, and then the oldest. It is held until it is
// given back.
func (g *Gate) EnterUntil(ctx context.Context, who string, size int, takeBack func()) (leave func(), err error) {
	size = max(1, min(size, g.limits.Each, g.limits.Total))
	own, mine, err := g.wait(who, size, takeBack)
	if err != nil {
		return nil, err
	}
	leave = sync.OnceFunc(func() { g.leave(own, mine) })
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

func (g *Gate) wait(who string, size int, takeBack func()) (*caller, *ticket, error) {
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

// admit lets in who may, in turn. One who waits for room that others hold is not overtaken, or they might wait forever;
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
			g.reclaim()
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
		g.turns = slices.Delete(g.turns, i, i+1)
		if len(next.waiting) > 0 {
			g.turns = append(g.turns, next)
		}
	}
}

// reclaim takes back what has been held long enough, now or when it has. Whoever takes what is theirs in time loses
// nothing; whoever does not must not keep others out, under however many names.
func (g *Gate) reclaim() {
	if len(g.holders) == 0 || g.again != nil {
		return
	}
	first := g.holders[0]
	if left := g.limits.Patience - time.Since(first.since); left > 0 {
		g.again = time.AfterFunc(left, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.again = nil
			g.admit()
		})
		return
	}
	chosen := 0
	for i, held := range g.holders {
		if time.Since(held.since) >= g.limits.Patience && held.own.held > g.holders[chosen].own.held {
			chosen = i
		}
	}
	go g.holders[chosen].takeBack()
	g.holders = slices.Delete(g.holders, chosen, chosen+1)
}

func (g *Gate) leave(own *caller, mine *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(own, mine)
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
		g.giveBack(own, mine)
	}
	g.forget(own)
	g.admit()
}

func (g *Gate) giveBack(own *caller, mine *ticket) {
	g.held -= mine.size
	own.held -= mine.size
	g.holders = slices.DeleteFunc(g.holders, func(t *ticket) bool { return t == mine })
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
