package queueing

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// FIFO starts jobs in order of submission, and nothing before the job whose turn it is.
func FIFO() Policy { return &fifo{} }

type fifo struct{ queue []*trace.Job }

func (f *fifo) Submit(job *trace.Job) { f.queue = append(f.queue, job) }

func (f *fifo) Schedule(s *Session) error {
	for len(f.queue) > 0 {
		started, err := s.Start(f.queue[0])
		if err != nil || !started {
			return err
		}
		f.queue = f.queue[1:]
	}
	return nil
}

// Backfill starts, in order of submission, every job that fits, and keeps nothing back for those that do not: a large
// job starts only when there happens to be room.
func Backfill() Policy { return &greedy{newWaiting(bySubmission)} }

// ShortestFirst starts, in order of runtime, every job that fits. It is clairvoyant.
func ShortestFirst() Policy { return &greedy{newWaiting(byRuntime)} }

type greedy struct{ queue *waiting }

func (g *greedy) Submit(job *trace.Job) { g.queue.push(job.GPUs, job) }

func (g *greedy) Schedule(s *Session) error { return g.queue.pass(s.Start) }

func bySubmission(a, b *trace.Job) bool { return a.ID < b.ID }

func byRuntime(a, b *trace.Job) bool {
	return a.Runtime < b.Runtime || a.Runtime == b.Runtime && a.ID < b.ID
}

// BackfillUntil starts every job that fits until the oldest of those that wait has waited for patience. From then on
// only that one may start, wherever there is room beside it.
func BackfillUntil(patience time.Duration) Policy {
	return &patient{greedy: greedy{newWaiting(bySubmission)}, patience: patience}
}

type patient struct {
	greedy
	patience time.Duration
}

func (p *patient) Schedule(s *Session) error {
	stop := false
	return p.queue.pass(func(job *trace.Job) (bool, error) {
		if stop {
			return false, nil
		}
		started, err := s.Start(job)
		// Jobs come in order, and only the first to be refused may be the oldest that waits.
		stop = !started && s.Now()-job.Submit >= p.patience
		return started, err
	})
}
