package backpressure

import (
	"slices"
	"time"
)

const (
	// startLimit is the limit before anything is known: enough for 1,600 pods a second where a binding takes 10 ms.
	startLimit = 16
	// leastLimit keeps a scheduler going whose API server is overwhelmed by others. Fewer than these tell nothing of a queue.
	leastLimit = 4
	// So many of the bindings under way may stand behind others in the API server: with fewer of them it may have nothing to do
	// between two, with more they only wait for each other.
	fewQueued, manyQueued = 3, 6
	// leastRound is how many bindings a round has at least, whose median says what one takes, and leastProbe those of a probe.
	leastRound, leastProbe = 8, 32
	// probeEvery is how often a probe is made, a round with a quarter of the limit, which shows what a binding takes that waits for few
	// others. That changes when others ask the API server for more, or for less.
	probeEvery = 5 * time.Second
)

// limiter chooses how many bindings are worth having under way, from what they take. It does what TCP Vegas does with packets
// (Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", 1995): of n under way, n × (1 − base/took)
// stand behind others, where base is what a binding takes that waits for no other. The limit grows while those are few, and
// shrinks while they are many, by an eighth. The base is that of the last probe, or what rounds took since in the mean of the last
// few, if that is less. The least of many rounds would be a lucky one.
type limiter struct {
	most, limit int

	base    time.Duration // 0 before the first probe
	recent  time.Duration // what rounds took since it, the last ones counting most
	probed  time.Time     // when the last probe began
	probing bool
	round   []time.Duration // what the bindings of this round, or probe, took
	reached bool            // in this round, the limit was reached
}

func newLimiter(most int) *limiter {
	most = max(most, 1)
	return &limiter{most: most, limit: min(startLimit, most)}
}

// now returns the limit.
func (l *limiter) now() int {
	if l.probing {
		return min(max(leastLimit, l.limit/4), l.limit)
	}
	return l.limit
}

// ended notes what a binding took, and that it was one of so many under way when it began. Those beyond the limit are members of
// a gang, which begin all at once and wait for each other.
func (l *limiter) ended(at time.Time, took time.Duration, underway int) {
	limit := l.now()
	if underway > limit {
		return
	}
	l.round = append(l.round, took)
	l.reached = l.reached || underway == limit
	least := leastRound
	if l.probing {
		least = leastProbe
	}
	if len(l.round) < max(l.limit, least) {
		return
	}
	slices.Sort(l.round)
	l.adjust(l.round[len(l.round)/2])
	l.round, l.reached, l.probing = l.round[:0], false, false
	if at.Sub(l.probed) >= probeEvery {
		l.probed, l.probing = at, true
	}
}

// adjust ends a round, of which a binding took so long in the median.
func (l *limiter) adjust(took time.Duration) {
	if l.probing {
		l.base, l.recent = took, took
		return
	}
	l.recent += (took - l.recent) / 8
	l.base = min(l.base, l.recent)
	if l.base == 0 || took <= 0 || !l.reached {
		return
	}
	step := max(1, l.limit/8)
	switch queued := float64(l.limit) * (1 - l.base.Seconds()/took.Seconds()); {
	case queued < fewQueued:
		l.limit = min(l.limit+step, l.most)
	case queued > manyQueued:
		l.limit = max(l.limit-step, min(leastLimit, l.most))
	}
}
