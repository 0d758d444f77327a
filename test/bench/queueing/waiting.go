package queueing

import (
	"container/heap"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// waiting is a queue in parts, one for each size: as free GPUs only become fewer while a policy binds, what did not fit
// once will not fit again in the same pass, nor will anything of its size. A pass thus costs O(sizes + starts × log n),
// however many wait.
type waiting struct {
	parts []*part
	less  func(a, b *trace.Job) bool
}

// part is a heap of the jobs of one size.
type part struct {
	size   int
	jobs   []*trace.Job
	less   func(a, b *trace.Job) bool
	closed bool
}

func newWaiting(less func(a, b *trace.Job) bool) *waiting { return &waiting{less: less} }

func (w *waiting) push(size int, job *trace.Job) { heap.Push(w.part(size), job) }

func (w *waiting) part(size int) *part {
	i := slices.IndexFunc(w.parts, func(p *part) bool { return p.size == size })
	if i < 0 {
		i = len(w.parts)
		w.parts = append(w.parts, &part{size: size, less: w.less})
	}
	return w.parts[i]
}

// pass offers the jobs in order. One that is not taken closes its size until the next pass.
func (w *waiting) pass(take func(job *trace.Job) (bool, error)) error {
	for _, p := range w.parts {
		p.closed = false
	}
	for p := w.first(); p != nil; p = w.first() {
		// Out of the queue first: what is taken may come back in another size, with its next pod.
		job := heap.Pop(p).(*trace.Job)
		taken, err := take(job)
		if err != nil {
			return err
		}
		if !taken {
			heap.Push(p, job)
			p.closed = true
		}
	}
	return nil
}

// first is the open part with the least job, or nil.
func (w *waiting) first() *part {
	var first *part
	for _, p := range w.parts {
		if !p.closed && len(p.jobs) > 0 && (first == nil || w.less(p.jobs[0], first.jobs[0])) {
			first = p
		}
	}
	return first
}

func (p *part) Len() int           { return len(p.jobs) }
func (p *part) Less(i, j int) bool { return p.less(p.jobs[i], p.jobs[j]) }
func (p *part) Swap(i, j int)      { p.jobs[i], p.jobs[j] = p.jobs[j], p.jobs[i] }
func (p *part) Push(job any)       { p.jobs = append(p.jobs, job.(*trace.Job)) }
func (p *part) Pop() any {
	last := p.jobs[len(p.jobs)-1]
	p.jobs = p.jobs[:len(p.jobs)-1]
	return last
}
