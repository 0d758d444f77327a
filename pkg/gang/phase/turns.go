package phase

import "time"

const (
	// searchTimeShare bounds the time spent on failing searches for victims for the gangs of one namespace: one part in so many for gangs that search
	// for the first time, and as much for all others.
	searchTimeShare = 20
	// stepTime is the time to visit a pod in such a search, and cheapSearch how many pods may be visited without a charge.
	stepTime    = 250 * time.Nanosecond
	cheapSearch = 1_000
)

// SearchTurns limits, by namespace, when gangs may search for victims after failed searches. Each change of a node is a reason to search
// again, and all other pods wait in the meantime: a thousand pods of one user that are guaranteed GPUs which are never returned would take up
// all the time.
type SearchTurns struct {
	byNamespace map[string]*namespaceBackoff
}

// namespaceBackoff is the limit of a namespace.
type namespaceBackoff struct {
	// first is when a gang may search that has not searched before, and step the interval to the next one.
	first time.Time
	step  time.Duration
	// turns are the search times of gangs that wait for one, or have searched in vain. fresh is how many of them have not searched.
	turns map[Searcher]searchTurn
	fresh int
}

// Searcher is a gang that searches for victims.
type Searcher struct{ Namespace, Name string }

type searchTurn struct {
	at    time.Time
	fresh bool
}

// NextSearchTime returns when a gang may search; not after now if it may do so now.
func (t *SearchTurns) NextSearchTime(g Searcher, now time.Time) time.Time {
	a := t.byNamespace[g.Namespace]
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

// BackOff records that a gang has visited so many pods without success.
func (t *SearchTurns) BackOff(g Searcher, looked int, now time.Time) {
	if looked < cheapSearch {
		return
	}
	a := t.byNamespace[g.Namespace]
	if a == nil {
		a = &namespaceBackoff{turns: map[Searcher]searchTurn{}}
		if t.byNamespace == nil {
			t.byNamespace = map[string]*namespaceBackoff{}
		}
		t.byNamespace[g.Namespace] = a
	}
	before, waited := a.turns[g]
	a.removeGang(g)
	a.step = searchTimeShare * time.Duration(looked) * stepTime
	if !waited || before.fresh {
		a.first = now.Add(a.step)
	}
	others := len(a.turns) - a.fresh
	a.turns[g] = searchTurn{at: now.Add(time.Duration(1+others) * a.step)}
}

func (a *namespaceBackoff) removeGang(g Searcher) {
	if a.turns[g].fresh {
		a.fresh--
	}
	delete(a.turns, g)
}

// ForgetSearcher drops a gang that has found victims, or is gone. The last failed search of its namespace still counts.
func (t *SearchTurns) ForgetSearcher(g Searcher, now time.Time) {
	a := t.byNamespace[g.Namespace]
	if a == nil {
		return
	}
	if a.removeGang(g); len(a.turns) == 0 && !now.Before(a.first) {
		delete(t.byNamespace, g.Namespace)
	}
}
