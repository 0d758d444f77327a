package queueing

import (
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// EASY is EASY backfilling (Lifka 1995) with the true runtimes: the oldest job that waits gets a reservation, and others
// start before it only if they end before the reservation or leave what it needs. It is clairvoyant.
//
// The reservation is made in GPUs of the whole cluster, as on a machine without nodes: at the next end of a job from
// which on enough GPUs are free, wherever they are. Where they turn out scattered, the oldest job waits for longer.
func EASY() Policy { return &easy{reserve: reserveGPUs, runs: trueRuntime} }

func trueRuntime(job *trace.Job) time.Duration { return job.Runtime }

// EASYOnNodes is EASY with a reservation that counts nodes: at the next end of a job from which on the gang fits. It
// holds what EASY only promises, and is the stronger baseline for large jobs.
func EASYOnNodes() Policy { return &easy{reserve: reserveNodes, runs: trueRuntime} }

type easy struct {
	// queue has the waiting jobs, a part for each number of GPUs.
	queue []*fifoByRuntime
	// reserve makes the reservation for a job that does not fit now.
	reserve func(s *Session, job *trace.Job) reservation
	// runs is what a job is taken to run.
	runs func(*trace.Job) time.Duration
	// shortest has the shortest job go first beside the reservation, and not the oldest.
	shortest bool
	// trust is for how long a job may have waited while others start that are only taken to end before its reservation. 0 is for ever.
	trust time.Duration
}

// reservation is what the oldest job was promised.
type reservation interface {
	// at is when it shall start.
	at() time.Duration
	// spares says whether the oldest job can start then although pods of a gang are still on nodes.
	spares(gang trace.Gang, nodes []int) bool
	// take puts the pods there.
	take(gang trace.Gang, nodes []int)
}

func (e *easy) Submit(job *trace.Job) { e.part(job.GPUs).push(job) }

func (e *easy) part(gpus int) *fifoByRuntime {
	i := slices.IndexFunc(e.queue, func(q *fifoByRuntime) bool { return q.gpus == gpus })
	if i < 0 {
		i = len(e.queue)
		e.queue = append(e.queue, &fifoByRuntime{gpus: gpus, runs: e.runs})
	}
	return e.queue[i]
}

func (e *easy) Schedule(s *Session) error {
	for {
		oldest := e.oldest()
		if oldest == nil {
			return nil
		}
		started, err := s.Start(oldest)
		if err != nil {
			return err
		}
		if !started {
			return e.backfill(s, oldest, e.reserve(s, oldest))
		}
		e.part(oldest.GPUs).remove(oldest)
	}
}

func (e *easy) oldest() *trace.Job {
	var oldest *trace.Job
	for _, part := range e.queue {
		if job := part.first(trace.MaxRuntime); job != nil && (oldest == nil || job.ID < oldest.ID) {
			oldest = job
		}
	}
	return oldest
}

// backfill starts jobs beside a reservation, in order of submission.
func (e *easy) backfill(s *Session, oldest *trace.Job, promised reservation) error {
	e.part(oldest.GPUs).remove(oldest)
	defer e.part(oldest.GPUs).restore(oldest)
	for {
		job, nodes := e.candidate(s, oldest, promised)
		if job == nil {
			return nil
		}
		if s.Now()+e.runs(job) > promised.at() {
			promised.take(job.Gang(), nodes)
		}
		if err := s.Bind(job, nodes...); err != nil {
			return err
		}
		e.part(job.GPUs).remove(job)
	}
}

// candidate is the oldest job that may start beside the reservation, or the shortest, and where: of each size any that fits if it
// spares what was promised, or else the first that ends in time.
func (e *easy) candidate(s *Session, oldest *trace.Job, promised reservation) (*trace.Job, []int) {
	var best *trace.Job
	var where []int
	for _, part := range e.queue {
		gang := trace.GangOf(part.gpus)
		if part.empty() {
			continue
		}
		nodes, ok := s.Cluster().BestFit(gang)
		if !ok {
			continue
		}
		limit := promised.at() - s.Now()
		if e.trust > 0 && s.Now()-oldest.Submit >= e.trust {
			limit = -1
		}
		if promised.spares(gang, nodes) {
			limit = trace.MaxRuntime
		}
		if job := e.next(part, limit); job != nil && (best == nil || e.before(job, best)) {
			best, where = job, nodes
		}
	}
	return best, where
}

// next is the job of a size that goes first of those that run for at most limit, nil for none.
func (e *easy) next(part *fifoByRuntime, limit time.Duration) *trace.Job {
	if !e.shortest {
		return part.first(limit)
	}
	if job := part.shortest(); job != nil && e.runs(job) <= limit {
		return job
	}
	return nil
}

func (e *easy) before(a, b *trace.Job) bool {
	if e.shortest && e.runs(a) != e.runs(b) {
		return e.runs(a) < e.runs(b)
	}
	return a.ID < b.ID
}
