package queueing

import (
	"context"
	"time"

	"g8s.host/gpu-scheduler/pkg/forecast"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// Foretold is what was said of a job when it had arrived and did not start at once, and what came of it.
type Foretold struct {
	Job *trace.Job
	forecast.Interval
	// Waited is how long it did.
	Waited time.Duration
}

// Holds says whether the job started within the interval.
func (f *Foretold) Holds() bool { return f.Known && f.Earliest <= f.Waited && f.Waited <= f.Latest }

// Foretell replays jobs under a policy, and asks of each so-manieth, and of all of more than one node, when it has arrived and has to wait,
// when it starts: with pkg/forecast, as gpuctl queue does, and with what is known by then alone.
func Foretell(ctx context.Context, jobs []*trace.Job, cluster *Cluster, policy Policy, every int) ([]Foretold, error) {
	o := &observed{Policy: policy, every: every}
	result, err := Replay(ctx, jobs, cluster, o)
	if err != nil {
		return nil, err
	}
	for i := range o.told {
		o.told[i].Waited = result.Outcomes[o.told[i].Job.ID].Delay()
	}
	return o.told, nil
}

// observed is a policy that is watched.
type observed struct {
	Policy
	every int
	past  survival.History
	// waiting are the jobs that have not started, and perhaps some that have, in order of submission; new those that have just come.
	waiting []*trace.Job
	asked   []*trace.Job
	told    []Foretold
}

func (o *observed) Submit(job *trace.Job) {
	o.waiting = append(o.waiting, job)
	if job.ID%o.every == 0 || job.GPUs > trace.GPUsPerNode { // there are few of these
		o.asked = append(o.asked, job)
	}
	o.Policy.Submit(job)
}

func (o *observed) Schedule(s *Session) error {
	for _, run := range s.Ended() {
		o.past.AddRun(known(run.Job), run.Job.Runtime)
	}
	if err := o.Policy.Schedule(s); err != nil {
		return err
	}
	for _, job := range o.asked {
		if !s.outcomes[job.ID].Started {
			o.told = append(o.told, Foretold{Job: job, Interval: o.ask(s, job)})
		}
	}
	o.asked = nil
	return nil
}

// known is what a scheduler knows of a job. The trace names no users, but virtual clusters.
func known(job *trace.Job) survival.Job {
	return survival.Job{Namespace: job.VC, GPUs: int64(job.GPUs)}
}

func (o *observed) ask(s *Session, job *trace.Job) forecast.Interval {
	state := &forecast.State{Free: make([]forecast.Amounts, s.Cluster().Nodes())}
	for node := range state.Free {
		state.Free[node] = gpusOf(s.Cluster().Free(node))
	}
	for _, run := range s.Running() {
		state.Running = append(state.Running, running(run, o.past.RemainingTime(known(run.Job), s.Now()-run.Start(), 0)))
	}
	shapes, left := map[int]int{}, o.waiting[:0]
	asked := 0
	for _, waits := range o.waiting {
		if s.outcomes[waits.ID].Started {
			continue
		}
		left = append(left, waits)
		shape, seen := shapes[waits.GPUs]
		if !seen {
			shape = len(state.Shapes)
			shapes[waits.GPUs] = shape
			state.Shapes = append(state.Shapes, shapeOf(waits.Gang()))
		}
		if waits == job {
			asked = len(state.Waiting)
		}
		state.Waiting = append(state.Waiting, forecast.Waiting{Shape: shape, Runs: o.past.RemainingTime(known(waits), 0, 0)})
	}
	o.waiting = left
	return forecast.StartIntervals(state, asked, forecast.Budget)[asked]
}

func gpusOf(count int) forecast.Amounts { return forecast.Amounts{forecast.GPUs: int64(count)} }

func running(run *Running, ends survival.Distribution) forecast.Running {
	out := forecast.Running{Ends: []survival.Distribution{ends}}
	gang := run.Job.Gang()
	for pod, node := range run.Nodes {
		out.Holds = append(out.Holds, forecast.Hold{Node: node, Amounts: gpusOf(gang.GPUsOfPod(pod))})
	}
	return out
}

func shapeOf(gang trace.Gang) (out forecast.Shape) {
	for pod := range gang.PodCount() {
		out.Pods = append(out.Pods, forecast.Pod{Needs: gpusOf(gang.GPUsOfPod(pod))})
	}
	return out
}
