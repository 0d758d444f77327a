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
		large: bets.Large, ahead: bets.Ahead,
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
	// Large is how many of the oldest jobs of more than a node are promised a start beside the oldest of all, as Slurm's backfill plans for
	// many jobs and not for one, and Ahead how much longer they count as waiting than they have, as by Slurm's job size factor.
	Large int
	Ahead time.Duration
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
	remaining := l.past.RemainingTime
	if l.bets.Own {
		remaining = l.past.RemainingByOwner
	}
	return remaining(known(job), elapsed, 0).Quantile(l.bets.Quantile)
}

func (l *learnt) Schedule(s *Session) error {
	for _, run := range s.Ended() {
		l.past.AddRun(known(run.Job), run.Job.Runtime)
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

// promise is where a job fits first, by when those are taken to end that run, and those who were promised a start before it.
func (l *learnt) promise(s *Session, job *trace.Job, before reservations) reservation {
	r := &nodesReserved{start: s.Now(), gang: job.Gang(), then: s.Cluster().clone()}
	r.then.ties = nil // it is foreseen, and nothing is chosen
	ends := l.endsOf(s)
	before = slices.DeleteFunc(slices.Clone(before), func(to reserved) bool { return to.reservation == unpromised{} })
	for {
		for len(before) > 0 && before[0].at() <= r.start {
			ends = l.begin(before[0], r.then, ends)
			before = before[1:]
		}
		if len(before) == 0 && r.then.Fits(r.gang) {
			return r
		}
		if len(ends) == 0 || ends[0].at-s.Now() >= trace.MaxRuntime {
			return unpromised{}
		}
		r.then.release(ends[0].job.Gang(), ends[0].nodes)
		r.start, ends = ends[0].at, ends[1:]
	}
}

// end is when a job is taken to leave its nodes.
type end struct {
	at    time.Duration
	job   *trace.Job
	nodes []int
}

func (e end) compare(other end) int {
	return cmp.Or(cmp.Compare(e.at, other.at), cmp.Compare(e.job.ID, other.job.ID))
}

// endsOf are those of the jobs that run, in order.
func (l *learnt) endsOf(s *Session) []end {
	ends := make([]end, len(s.Running()))
	for i, run := range s.Running() {
		ends[i] = end{l.endOf(run, s.Now()), run.Job, run.Nodes}
	}
	slices.SortFunc(ends, end.compare)
	return ends
}

// begin has a job be on a cluster that was promised its start, and returns the ends with its own.
func (l *learnt) begin(its reserved, then *Cluster, ends []end) []end {
	nodes, ok := then.BestFit(its.job.Gang())
	if !ok {
		return ends // who was promised a start before it, and is on its nodes longer than was thought
	}
	then.take(its.job.Gang(), nodes)
	own := end{its.at() + l.runs[its.job.ID], its.job, nodes}
	at, _ := slices.BinarySearchFunc(ends, own, end.compare)
	return slices.Insert(ends, at, own)
}

// unpromised keeps nothing for anybody.
type unpromised struct{}

func (unpromised) at() time.Duration             { return 2 * trace.MaxRuntime }
func (unpromised) spares(trace.Gang, []int) bool { return true }
func (unpromised) take(trace.Gang, []int)        {}
