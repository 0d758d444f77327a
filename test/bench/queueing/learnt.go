package queueing

import (
	"cmp"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// bet is how probable it is that a job ends by when it is taken to end.
const bet = 0.95

// Learnt is EASY on nodes for jobs of which nobody knows how long they run: what counts in place of the true runtimes is a
// quantile of how long jobs like them have run that have ended by then (pkg/survival). A job that runs for longer is asked of again,
// among those that ran for as long (Tsafrir et al., Backfilling Using System-Generated Predictions, 2007).
//
// Jobs whose end is not known at all are not counted on, and the oldest that waits is then promised nothing, as in gpu-scheduler.
func Learnt(bets Bets) Policy {
	l := &learnt{bets: bets, runs: map[int]time.Duration{}, ends: map[int]time.Duration{}}
	l.easy = easy{
		reserve: l.promise, runs: func(job *trace.Job) time.Duration { return l.runs[job.ID] }, shortest: bets.Shortest, trust: bets.Trust,
	}
	return l
}

// Bets are how a policy uses what it has learnt.
type Bets struct {
	// Quantile is of how many jobs it is to be true that they end by when they are taken to.
	Quantile float64
	// Shortest has the job go first beside the promise that is taken to be the shortest, and not the oldest.
	Shortest bool
	// Trust is for how long a job may have waited while others start that are only taken to end before it starts, 0 for ever.
	Trust time.Duration
	// Own has nothing learnt of a job from those of others.
	Own bool
}

type learnt struct {
	easy
	bets Bets
	past survival.History
	// runs is how long those are taken to run that wait, and ends when those are to end that run, by their IDs.
	runs, ends map[int]time.Duration
}

func (l *learnt) Submit(job *trace.Job) {
	l.runs[job.ID] = min(l.left(job, 0), trace.MaxRuntime)
	l.easy.Submit(job)
}

// left is how much longer a job is taken to run.
func (l *learnt) left(job *trace.Job, elapsed time.Duration) time.Duration {
	remaining := l.past.Remaining
	if l.bets.Own {
		remaining = l.past.RemainingOwn
	}
	return remaining(known(job), elapsed, 0).Quantile(l.bets.Quantile)
}

func (l *learnt) Schedule(s *Session) error {
	for _, run := range s.Ended() {
		l.past.Learn(known(run.Job), run.Job.Runtime)
		delete(l.runs, run.Job.ID)
		delete(l.ends, run.Job.ID)
	}
	return l.easy.Schedule(s)
}

// endOf is when a job is taken to end: by what was said last of it, until that is over.
func (l *learnt) endOf(run *Running, now time.Duration) time.Duration {
	end, said := l.ends[run.Job.ID]
	if !said || end <= now {
		end = now + min(max(l.left(run.Job, now-run.Start()), time.Minute), trace.MaxRuntime)
		l.ends[run.Job.ID] = end
	}
	return end
}

// promise is where the oldest job fits first, by when those are taken to end that run.
func (l *learnt) promise(s *Session, job *trace.Job) reservation {
	r := &nodesReserved{start: s.Now(), gang: job.Gang(), then: s.Cluster().clone()}
	type end struct {
		at  time.Duration
		run *Running
	}
	ends := make([]end, len(s.Running()))
	for i, run := range s.Running() {
		ends[i] = end{l.endOf(run, s.Now()), run}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.run.Job.ID, b.run.Job.ID)) })
	for _, next := range ends {
		if r.then.Fits(r.gang) {
			break
		}
		if next.at-s.Now() >= trace.MaxRuntime {
			return unpromised{}
		}
		next.run.release(r.then)
		r.start = next.at
	}
	return r
}

// unpromised keeps nothing for anybody.
type unpromised struct{}

func (unpromised) at() time.Duration             { return 2 * trace.MaxRuntime }
func (unpromised) spares(trace.Gang, []int) bool { return true }
func (unpromised) take(trace.Gang, []int)        {}
