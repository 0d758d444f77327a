package fair

import "time"

// Turns share the time of one worker among callers, as start-time fair queueing does: who has used less of it goes first. A caller that
// has asked for nothing for a while begins where those stand that are served: it has saved up no turns, and owes none for what it
// used while nobody else waited. The zero value has seen nobody.
type Turns struct {
	// used is how much callers have used, of those that have used more than floor.
	used  map[string]time.Duration
	floor time.Duration
}

// slack is by how much one caller may be ahead of another and still count as its equal: less than anybody notices, and enough for some
// cheap pieces of work, which are done in the order in which they came.
const slack = 5 * time.Millisecond

// mostCallers is of how many it is remembered what they owe. Beyond that all is forgotten once: names are made up faster than debts are paid.
const mostCallers = 10_000

// Charge notes that a piece of work of a caller took so long.
func (t *Turns) Charge(caller string, cost time.Duration) {
	if t.used == nil || len(t.used) >= mostCallers {
		t.used = map[string]time.Duration{}
	}
	t.used[caller] = t.of(caller) + max(cost, 0)
}

// Next are those of some callers that wait of whom one is to be served.
func (t *Turns) Next(waiting []string) []string {
	if len(waiting) == 0 {
		return nil
	}
	least := t.of(waiting[0])
	for _, caller := range waiting {
		least = min(least, t.of(caller))
	}
	t.floor = max(t.floor, least)
	var next []string
	for _, caller := range waiting {
		if t.of(caller) <= least+slack {
			next = append(next, caller)
		}
	}
	for caller, used := range t.used {
		if used <= t.floor {
			delete(t.used, caller)
		}
	}
	return next
}

func (t *Turns) of(caller string) time.Duration { return max(t.used[caller], t.floor) }
