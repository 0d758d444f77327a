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
func Learnt(quantile float64, shortest bool) Policy {
	l := &learnt{quantile: quantile, runs: map[int]time.Duration{}, ends: map[int]time.Duration{}}
	l.easy = easy{reserve: l.promise, runs: func(job *trace.Job) time.Duration { return l.runs[job.ID] }, shortest: shortest}
	return l
}

type learnt struct {
	easy
	quantile float64
	past     survival.History
	// runs is how long those are taken to run that wait, and ends when those are to end that run, by their IDs.
	runs, ends map[int]time.Duration
}

func (l *learnt) Submit(job *trace.Job) {
	l.runs[job.ID] = min(l.past.Remaining(known(job), 0, 0).Quantile(l.quantile), trace.MaxRuntime)
	l.easy.Submit(job)
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
		left := l.past.Remaining(known(run.Job), now-run.Start(), 0).Quantile(l.quantile)
		end = now + min(max(left, time.Minute), trace.MaxRuntime)
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
