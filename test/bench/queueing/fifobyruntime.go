package queueing

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// gone stands for the runtime of a job that has left the queue: longer than any.
const gone = trace.MaxRuntime + 1

// fifoByRuntime is a queue in order of submission that finds the first job of at most some runtime in O(log n): a
// segment tree of the least runtimes.
type fifoByRuntime struct {
	// gpus is what each of the jobs asks.
	gpus int
	// runs is what each is taken to run, which stays the same while it is in the queue.
	runs func(*trace.Job) time.Duration
	jobs []*trace.Job
	// least has the root at 1 and the children of i at 2i and 2i+1; the leaves, one for each job, are its second half.
	least []time.Duration
	// place is where a job is in jobs.
	place map[*trace.Job]int
}

func (q *fifoByRuntime) push(job *trace.Job) {
	if q.place == nil {
		q.place = map[*trace.Job]int{}
	}
	if len(q.jobs) == len(q.least)/2 {
		q.grow()
	}
	q.place[job] = len(q.jobs)
	q.jobs = append(q.jobs, job)
	q.restore(job)
}

// grow makes room for as many jobs as wait, twice over, and forgets those that have left.
func (q *fifoByRuntime) grow() {
	var left []*trace.Job
	for i, job := range q.jobs {
		if q.least[len(q.least)/2+i] < gone {
			left = append(left, job)
		}
	}
	leaves := 16
	for leaves < 2*len(left) {
		leaves *= 2
	}
	*q = fifoByRuntime{gpus: q.gpus, runs: q.runs, least: make([]time.Duration, 2*leaves), place: make(map[*trace.Job]int, leaves)}
	for i := range q.least {
		q.least[i] = gone
	}
	for _, job := range left {
		q.push(job)
	}
}

func (q *fifoByRuntime) remove(job *trace.Job) { q.set(q.place[job], gone) }

// restore undoes remove.
func (q *fifoByRuntime) restore(job *trace.Job) { q.set(q.place[job], q.runs(job)) }

func (q *fifoByRuntime) set(place int, runtime time.Duration) {
	i := len(q.least)/2 + place
	q.least[i] = runtime
	for i /= 2; i > 0; i /= 2 {
		q.least[i] = min(q.least[2*i], q.least[2*i+1])
	}
}

func (q *fifoByRuntime) empty() bool { return len(q.jobs) == 0 || q.least[1] == gone }

// first is the oldest job that runs for at most limit, or nil.
func (q *fifoByRuntime) first(limit time.Duration) *trace.Job {
	if q.empty() || q.least[1] > limit {
		return nil
	}
	i := 1
	for i < len(q.least)/2 {
		if i *= 2; q.least[i] > limit {
			i++
		}
	}
	return q.jobs[i-len(q.least)/2]
}

// shortest is the oldest of the jobs that run for the least time, nil if there is none.
func (q *fifoByRuntime) shortest() *trace.Job {
	if q.empty() {
		return nil
	}
	return q.first(q.least[1])
}
