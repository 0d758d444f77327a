package fair

import "time"

// Turns shares the time of one worker among callers by start-time fair queueing: the caller that has used less goes first. A caller that was idle for
// a while starts at the level of those being served: it has no credit, and no debt for what it used while no other caller waited. The zero value is
// ready.
type Turns struct {
	// used is what callers have used, for those above floor.
	used  map[string]time.Duration
	floor time.Duration
}

// slack is the lead by which one caller still counts as equal to another: too short to notice, and enough for some cheap pieces of work in the order
// of their arrival.
const slack = 5 * time.Millisecond

// mostCallers bounds the remembered callers. Beyond it everything is reset once: names are invented faster than debts are paid.
const mostCallers = 10_000

// Charge adds the cost of a caller's piece of work.
func (t *Turns) Charge(caller string, cost time.Duration) {
	if t.used == nil || len(t.used) >= mostCallers {
		t.used = map[string]time.Duration{}
	}
	t.used[caller] = t.usedBy(caller) + max(cost, 0)
}

// NextCallers returns those of the waiting callers that may be served next.
func (t *Turns) NextCallers(waiting []string) []string {
	if len(waiting) == 0 {
		return nil
	}
	least := t.usedBy(waiting[0])
	for _, caller := range waiting {
		least = min(least, t.usedBy(caller))
	}
	t.floor = max(t.floor, least)
	var next []string
	for _, caller := range waiting {
		if t.usedBy(caller) <= least+slack {
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

func (t *Turns) usedBy(caller string) time.Duration { return max(t.used[caller], t.floor) }
