package queueing

import (
	"context"
	"fmt"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Outcome is what became of a job.
type Outcome struct {
	Job *trace.Job
	// Started says whether all its pods were bound before the replay ended.
	Started bool
	// Start is when the last pod was bound, from the first submission of the trace.
	Start time.Duration
	// Racks is how many the job's pods are spread over.
	Racks int
}

// Delay is how long the job waited for the last of its GPUs.
func (o Outcome) Delay() time.Duration { return o.Start - o.Job.Submit }

// Completion is how long the job took from its submission to its end (JCT).
func (o Outcome) Completion() time.Duration { return o.Delay() + o.Job.Runtime }

// GPUHours is GPU time, in GPU-hours.
type GPUHours float64

// Totals are sums over the cluster, in the window from the first to the last submission, when it is in use.
type Totals struct {
	// Capacity is all there is.
	Capacity GPUHours
	// Busy is what jobs ran on.
	Busy GPUHours
	// Held is what pods held while others of their gang waited.
	Held GPUHours
	// Deadlocks is how often nothing ran, and nothing could start, while incomplete gangs held GPUs.
	Deadlocks int
}

// Result of a replay.
type Result struct {
	// Outcomes of all jobs, in order of submission.
	Outcomes []Outcome
	Totals   Totals
}

// Replay runs jobs, which must be in order of submission as ReadTrace returns them, on an empty cluster until the last
// has ended, or until those left can never start. The cluster is changed.
func Replay(ctx context.Context, jobs []*trace.Job, cluster *Cluster, policy Policy) (*Result, error) {
	if err := possible(jobs, cluster); err != nil {
		return nil, err
	}
	s := newSession(jobs, cluster)
	deadlocked := false
	for next := 0; next < len(jobs) || len(s.running) > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.advance(jobs[next:])
		s.end()
		for ; next < len(jobs) && jobs[next].Submit <= s.now; next++ {
			policy.Submit(jobs[next])
		}
		if err := policy.Schedule(s); err != nil {
			return nil, fmt.Errorf("scheduling at %s: %w", s.now, err)
		}
		stuck := len(s.running) == 0 && len(s.held) > 0
		if stuck && !deadlocked {
			s.totals.Deadlocks++
		}
		deadlocked = stuck
	}
	return &Result{Outcomes: s.outcomes, Totals: s.totals}, nil
}

// possible refuses jobs out of order, and jobs that would wait forever.
func possible(jobs []*trace.Job, cluster *Cluster) error {
	for i, job := range jobs {
		if job.ID != i || job.Submit < jobs[max(i-1, 0)].Submit {
			return fmt.Errorf("job %d is number %d: jobs must be in order of submission, with IDs from 0", job.ID, i)
		}
		if !cluster.Fits(job.Gang()) {
			return fmt.Errorf("job %d asks %d GPUs, and the cluster has %d: use at least %d nodes",
				job.ID, job.GPUs, cluster.Idle(), job.Gang().PodCount())
		}
	}
	return nil
}

func newSession(jobs []*trace.Job, cluster *Cluster) *Session {
	s := &Session{cluster: cluster, held: map[*trace.Job][]int{}, outcomes: make([]Outcome, len(jobs))}
	for i, job := range jobs {
		s.outcomes[i].Job = job
	}
	if len(jobs) > 0 {
		s.window = jobs[len(jobs)-1].Submit
	}
	s.totals.Capacity = gpuTime(cluster.Idle(), s.window)
	return s
}

// advance moves the clock to the next instant at which something happens, and charges what was held until then.
func (s *Session) advance(arrivals []*trace.Job) {
	var next time.Duration
	switch {
	case len(s.running) == 0:
		next = arrivals[0].Submit
	case len(arrivals) == 0:
		next = s.running[0].End
	default:
		next = min(s.running[0].End, arrivals[0].Submit)
	}
	gpus := 0
	for job, nodes := range s.held {
		for pod := range nodes {
			gpus += job.Gang().GPUsOfPod(pod)
		}
	}
	s.totals.Held += gpuTime(gpus, min(next, s.window)-min(s.now, s.window))
	s.now = next
}

func gpuTime(gpus int, d time.Duration) GPUHours { return GPUHours(float64(gpus) * d.Hours()) }
