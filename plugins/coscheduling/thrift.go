package coscheduling

import (
	"sync"
	"time"
)

const (
	// searchPart is which part of the time is spent on searches for who leaves that find nobody, for the gangs of one namespace: one in so many
	// parts for those that search for the first time, and as much for all others.
	searchPart = 20
	// stepTime is how long it takes to look at a pod in such a search, and cheapSearch how many may be looked at for nothing.
	stepTime    = 250 * time.Nanosecond
	cheapSearch = 1_000
)

// thrift is when gangs may search for who leaves after they have in vain, by namespace. Each change of a node is a reason to search again, and
// all others wait meanwhile: a thousand pods of one user that are guaranteed GPUs which nobody gives back would take the time of all.
type thrift struct {
	mu sync.Mutex
	of map[string]*allowance
}

// allowance is that of a namespace.
type allowance struct {
	// first is when one may search that has not before, and step how long after that the next one may.
	first time.Time
	step  time.Duration
	// turns are when those may that wait to, or have searched in vain; fresh is how many of them have not searched.
	turns map[gang]searchTurn
	fresh int
}

type searchTurn struct {
	at    time.Time
	fresh bool
}

// mayAt is when a gang may search: not after now if it may now.
func (t *thrift) mayAt(g gang, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of[g.group.Namespace]
	if a == nil {
		return now
	}
	if turn, waits := a.turns[g]; waits {
		return turn.at
	}
	if !now.Before(a.first) {
		return now
	}
	at := a.first.Add(time.Duration(a.fresh) * a.step)
	a.turns[g] = searchTurn{at, true}
	a.fresh++
	return at
}

// inVain notes that a gang has looked at so many pods for nothing.
func (t *thrift) inVain(g gang, looked int, now time.Time) {
	if looked < cheapSearch {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of[g.group.Namespace]
	if a == nil {
		a = &allowance{turns: map[gang]searchTurn{}}
		if t.of == nil {
			t.of = map[string]*allowance{}
		}
		t.of[g.group.Namespace] = a
	}
	before, waited := a.turns[g]
	a.remove(g)
	a.step = searchPart * time.Duration(looked) * stepTime
	if !waited || before.fresh {
		a.first = now.Add(a.step)
	}
	others := len(a.turns) - a.fresh
	a.turns[g] = searchTurn{at: now.Add(time.Duration(1+others) * a.step)}
}

func (a *allowance) remove(g gang) {
	if a.turns[g].fresh {
		a.fresh--
	}
	delete(a.turns, g)
}

// forget drops what is kept of a gang that has found somebody, or is gone. That its namespace has just searched in vain is kept.
func (t *thrift) forget(g gang, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of[g.group.Namespace]
	if a == nil {
		return
	}
	if a.remove(g); len(a.turns) == 0 && !now.Before(a.first) {
		delete(t.of, g.group.Namespace)
	}
}
