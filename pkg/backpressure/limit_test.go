package backpressure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// apiServer binds so many pods at the same time, each of which takes it about so long; answers travel for a while.
type apiServer struct {
	workers int
	service time.Duration
	travel  time.Duration
}

// capacity is how many bindings it can end in a second.
func (s apiServer) capacity() float64 { return float64(s.workers) / s.service.Seconds() }

// load is a scheduler that always has the next pod, or one every so often.
type load struct {
	limit  *limiter
	every  time.Duration // 0: as soon as it may
	random *rand.Rand
	free   []time.Duration // when each worker is free
	ends   []simulated     // under way
}

// simulated is a binding, one of so many under way when it began.
type simulated struct {
	began, end time.Duration
	rank       int
}

// run lets the scheduler bind for a while, from its start, and returns how many pods a second and what a binding took in the median and
// at the 99th percentile, in the second half of it.
func (l *load) run(s apiServer, from, until time.Duration) (rate float64, median, p99 time.Duration) {
	var took []time.Duration
	l.free = make([]time.Duration, s.workers)
	due := from
	for now := from; now < until; {
		if len(l.ends) < l.limit.currentLimit() && due <= now {
			l.begin(s, now)
			due += l.every
			continue
		}
		next := 0
		for i := range l.ends {
			if l.ends[i].end < l.ends[next].end {
				next = i
			}
		}
		if len(l.ends) == 0 || len(l.ends) < l.limit.currentLimit() && due < l.ends[next].end {
			now = due
			continue
		}
		ended := l.ends[next]
		now = max(now, ended.end)
		l.limit.recordBinding(time.Unix(1, 0).Add(now), ended.end-ended.began, ended.rank)
		l.ends = slices.Delete(l.ends, next, next+1)
		if now > (from+until)/2 {
			took = append(took, ended.end-ended.began)
		}
	}
	slices.Sort(took)
	return float64(len(took)) / ((until - from) / 2).Seconds(), took[len(took)/2], took[len(took)*99/100]
}

func (l *load) begin(s apiServer, now time.Duration) {
	worker := 0
	for i := range l.free {
		if l.free[i] < l.free[worker] {
			worker = i
		}
	}
	service := time.Duration(float64(s.service) * (0.5 + l.random.Float64()))
	l.free[worker] = max(l.free[worker], now+s.travel/2) + service
	l.ends = append(l.ends, simulated{began: now, end: l.free[worker] + s.travel/2, rank: len(l.ends) + 1})
}

// TestTheLimitIsWhatTheServerCanDo: nearly all that it can bind, with few bindings that wait for each other.
func TestTheLimitIsWhatTheServerCanDo(t *testing.T) {
	tests := map[string]struct {
		server apiServer
		// most is what a binding takes at most in the median, as a multiple of what it takes alone.
		most float64
	}{
		"two cores beside it":    {server: apiServer{workers: 2, service: 2500 * time.Microsecond, travel: time.Millisecond / 2}, most: 5},
		"one core":               {server: apiServer{workers: 1, service: 2 * time.Millisecond}, most: 10},
		"sixteen cores":          {server: apiServer{workers: 16, service: 5 * time.Millisecond, travel: time.Millisecond}, most: 1.7},
		"sixteen cores far away": {server: apiServer{workers: 16, service: 5 * time.Millisecond, travel: 30 * time.Millisecond}, most: 1.3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := &load{limit: newLimiter(128), random: rand.New(rand.NewPCG(1, 2))}
			rate, median, _ := l.run(tc.server, 0, time.Minute)
			t.Logf("%.0f of %.0f a second, %s each in the median, limit %d", rate, tc.server.capacity(), median, l.limit.limit)
			if rate < 0.95*tc.server.capacity() {
				t.Errorf("%.0f bindings a second, the server can do %.0f", rate, tc.server.capacity())
			}
			if alone := tc.server.service + tc.server.travel; median > time.Duration(tc.most*float64(alone)) {
				t.Errorf("a binding takes %s in the median, alone it takes %s", median, alone)
			}
		})
	}
}

// TestTheLimitFollowsAServerThatOthersAsk: for a minute it is ten times as slow, which is nobody's queue.
func TestTheLimitFollowsAServerThatOthersAsk(t *testing.T) {
	l := &load{limit: newLimiter(128), random: rand.New(rand.NewPCG(3, 4))}
	quick := apiServer{workers: 16, service: 5 * time.Millisecond}
	slow := apiServer{workers: 16, service: 50 * time.Millisecond}
	for i, s := range []apiServer{quick, slow, quick} {
		from := time.Duration(i) * time.Minute
		rate, median, _ := l.run(s, from, from+time.Minute)
		if rate < 0.9*s.capacity() || median > 2*s.service {
			t.Errorf("minute %d: %.0f bindings a second of %.0f, %s each", i, rate, s.capacity(), median)
		}
	}
}

// TestABusyStartMisleadsNotForLong: the first bindings meet an API server that still answers the lists of this scheduler, so the first
// probe takes them to be slow by nature.
func TestABusyStartMisleadsNotForLong(t *testing.T) {
	const second = time.Second
	l := &load{limit: newLimiter(128), random: rand.New(rand.NewPCG(8, 9))}
	l.run(apiServer{workers: 2, service: 50 * time.Millisecond}, 0, second)
	_, median, p99 := l.run(apiServer{workers: 2, service: 2500 * time.Microsecond}, second, 3*second)
	if median > 20*time.Millisecond || p99 > 30*time.Millisecond {
		t.Errorf("after it a binding takes %s, at the 99th percentile %s; alone it takes 2.5 ms", median, p99)
	}
}

// TestALimitThatHoldsUpNobodyStays: pods that come seldom say nothing of what the server could do beside.
func TestALimitThatHoldsUpNobodyStays(t *testing.T) {
	l := &load{limit: newLimiter(128), every: 20 * time.Millisecond, random: rand.New(rand.NewPCG(5, 6))}
	l.run(apiServer{workers: 2, service: 2 * time.Millisecond}, 0, time.Minute)
	if l.limit.limit != startLimit {
		t.Errorf("the limit is %d, want %d", l.limit.limit, startLimit)
	}
}

// TestMembersOfAGangAreNoSlowServer: they begin all at once and wait for each other.
func TestMembersOfAGangAreNoSlowServer(t *testing.T) {
	l := newLimiter(128)
	at := time.Unix(100, 0)
	for range 100 {
		for rank := 1; rank <= 512; rank++ {
			l.recordBinding(at, time.Duration(rank)*5*time.Millisecond, rank)
			at = at.Add(5 * time.Millisecond)
		}
	}
	if math.Abs(float64(l.limit-startLimit)) > 8 {
		t.Errorf("the limit is %d after 100 gangs, it was %d", l.limit, startLimit)
	}
}

func TestTheLimitStaysWithinBounds(t *testing.T) {
	for _, most := range []int{-1, 0, 1, 2, 3, 16, 1000} {
		l, random := newLimiter(most), rand.New(rand.NewPCG(uint64(most), 7))
		at := time.Unix(0, 0)
		for range 100000 {
			took := time.Duration(random.Int64N(int64(time.Second)))
			if random.IntN(100) == 0 {
				took = 0 // a clock that stands
			}
			at = at.Add(took / 16)
			l.recordBinding(at, took, 1+random.IntN(20))
			if now := l.currentLimit(); now < 1 || now > max(most, 1) {
				t.Fatalf("at most %d: the limit is %d", most, now)
			}
		}
	}
}
