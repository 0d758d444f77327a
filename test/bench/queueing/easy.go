package queueing

import (
	"cmp"
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
	// reserve makes the reservation for a job that does not fit now, beside those of others that were made before.
	reserve func(s *Session, job *trace.Job, before reservations) reservation
	// runs is what a job is taken to run.
	runs func(*trace.Job) time.Duration
	// shortest has the shortest job go first beside the reservation, and not the oldest.
	shortest bool
	// trust is for how long a job may have waited while others start that are only taken to end before its reservation. 0 is for ever.
	trust time.Duration
	// large is how many of the oldest jobs of more than a node have a reservation beside that of the oldest of all, and ahead how much longer
	// they count as waiting than they have.
	large int
	ahead time.Duration
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
		oldest := e.oldest(1)
		if oldest == nil {
			return nil
		}
		started, err := s.Start(oldest)
		if err != nil {
			return err
		}
		if !started {
			return e.promise(s, oldest)
		}
		e.part(oldest.GPUs).remove(oldest)
	}
}

// oldest is the job of some GPUs or more that counts as waiting for longest.
func (e *easy) oldest(gpus int) *trace.Job {
	var oldest *trace.Job
	for _, part := range e.queue {
		if part.gpus < gpus {
			continue
		}
		if job := part.first(trace.MaxRuntime); job != nil && (oldest == nil || e.older(job, oldest)) {
			oldest = job
		}
	}
	return oldest
}

func (e *easy) older(a, b *trace.Job) bool {
	return cmp.Or(cmp.Compare(e.since(a), e.since(b)), cmp.Compare(a.ID, b.ID)) < 0
}

// since is from when on a job counts as waiting.
func (e *easy) since(job *trace.Job) time.Duration {
	if job.GPUs > trace.GPUsPerNode {
		return job.Submit - e.ahead
	}
	return job.Submit
}

// promise makes the reservations, of the oldest job and of large ones, and starts jobs beside them.
func (e *easy) promise(s *Session, oldest *trace.Job) error {
	var promised reservations
	defer func() {
		for _, to := range promised {
			e.part(to.job.GPUs).restore(to.job)
		}
	}()
	for next := oldest; next != nil && len(promised) <= e.large; next = e.oldest(trace.GPUsPerNode + 1) {
		nodes, fits := s.Cluster().BestFit(next.Gang())
		if fits && e.runs(next) <= promised.limit(s.Now(), e.trust, next.Gang(), nodes) {
			if err := e.start(s, next, nodes, promised); err != nil {
				return err
			}
			continue
		}
		promised = append(promised, reserved{next, e.reserve(s, next, promised)})
		e.part(next.GPUs).remove(next)
	}
	return e.backfill(s, promised)
}

// backfill starts jobs beside the reservations, in order of submission.
func (e *easy) backfill(s *Session, promised reservations) error {
	for {
		job, nodes := e.candidate(s, promised)
		if job == nil {
			return nil
		}
		if err := e.start(s, job, nodes, promised); err != nil {
			return err
		}
	}
}

func (e *easy) start(s *Session, job *trace.Job, nodes []int, promised reservations) error {
	promised.take(s.Now()+e.runs(job), job.Gang(), nodes)
	if err := s.Bind(job, nodes...); err != nil {
		return err
	}
	e.part(job.GPUs).remove(job)
	return nil
}

// candidate is the oldest job that may start beside the reservations, or the shortest, and where: of each size any that fits if it
// spares what was promised, or else the first that ends in time.
func (e *easy) candidate(s *Session, promised reservations) (*trace.Job, []int) {
	var best *trace.Job
	var where []int
	for _, part := range e.queue {
		if part.empty() {
			continue
		}
		gang := trace.NewGang(part.gpus)
		nodes, ok := s.Cluster().BestFit(gang)
		if !ok {
			continue
		}
		if job := e.next(part, promised.limit(s.Now(), e.trust, gang, nodes)); job != nil && (best == nil || e.before(job, best)) {
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
