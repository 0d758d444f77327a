package backpressure

import (
	"slices"
	"time"
)

const (
	// startLimit is the initial limit: enough for 1,600 pods per second if a binding takes 10 ms.
	startLimit = 16
	// leastLimit keeps a scheduler going when others overload its API server. Fewer bindings show nothing about a queue.
	leastLimit = 4
	// The target range of bindings that queue in the API server: with fewer it may idle between two, with more they only wait for each other.
	fewQueued, manyQueued = 3, 6
	// leastRound is the minimum size of a round, whose median is the duration of a binding, and leastProbe that of a probe.
	leastRound, leastProbe = 8, 32
	// probeEvery is the interval of probes: rounds with a quarter of the limit, which show the duration of a binding with little waiting. That
	// changes with the load from others on the API server.
	probeEvery = 5 * time.Second
)

// limiter chooses the useful number of bindings in flight from their duration. It works like TCP Vegas with packets (Brakmo and Peterson, "TCP Vegas:
// End to End Congestion Avoidance on a Global Internet", 1995): of n in flight, n × (1 − base/took) are queued, where base is the duration of a
// binding that waits for no other. The limit grows while few are queued, and shrinks while many are, by an eighth. The base is that of the last
// probe, or the moving average of the rounds since then if that is less. The minimum of many rounds would be an outlier.
type limiter struct {
	most, limit int

	base    time.Duration // 0 before the first probe
	recent  time.Duration // moving average of the rounds since then
	probed  time.Time     // when the last probe began
	probing bool
	round   []time.Duration // durations of this round or probe
	reached bool            // the limit was reached in this round
}

func newLimiter(most int) *limiter {
	most = max(most, 1)
	return &limiter{most: most, limit: min(startLimit, most)}
}

// currentLimit returns the limit.
func (l *limiter) currentLimit() int {
	if l.probing {
		return min(max(leastLimit, l.limit/4), l.limit)
	}
	return l.limit
}

// recordBinding records the duration of a binding and the number in flight when it began. Those beyond the limit are members of a gang, which begin at once
// and wait for each other.
func (l *limiter) recordBinding(at time.Time, took time.Duration, underway int) {
	limit := l.currentLimit()
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
	l.adjustLimit(l.round[len(l.round)/2])
	l.round, l.reached, l.probing = l.round[:0], false, false
	if at.Sub(l.probed) >= probeEvery {
		l.probed, l.probing = at, true
	}
}

// adjustLimit ends a round with the given median duration.
func (l *limiter) adjustLimit(took time.Duration) {
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
