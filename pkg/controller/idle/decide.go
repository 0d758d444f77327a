// Package idle finds jobs whose GPUs are idle. It warns about them and pauses those that ask for it. A paused job keeps its volumes, and its user
// resumes it.
//
// The load of GPUs comes from Prometheus. A job is idle as long as all of its GPUs are known to have been idle without a gap: an unmeasured GPU
// counts as busy.
package idle

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
)

// GPU is a GPU held by a pod.
type GPU struct {
	UUID, Node string
	Index      int
}

// Pod is a pod of a job.
type Pod struct {
	// Started is when its last container started, zero unless all containers run.
	Started time.Time
	// GPUs are the GPUs of the pod, none if unknown.
	GPUs []GPU
}

// IdleDuration returns how long all GPUs of the pods have been idle, that is below a load in percent, until the end of the known history. It is at most the
// length of that history and the run time of the youngest pod.
func IdleDuration(pods []Pod, past *gpumetrics.Past, below float64) time.Duration {
	if len(pods) == 0 {
		return 0
	}
	var shortest time.Duration = -1
	for i := range pods {
		idle := pods[i].idleFor(past, below)
		if shortest < 0 || idle < shortest {
			shortest = idle
		}
	}
	return shortest
}

func (p *Pod) idleFor(past *gpumetrics.Past, below float64) time.Duration {
	if p.Started.IsZero() || len(p.GPUs) == 0 {
		return 0
	}
	shortest := past.End.Sub(p.Started)
	for _, card := range p.GPUs {
		shortest = min(shortest, trailingIdle(past.StepsFor(card.UUID, card.Node, card.Index), below, past.Step))
	}
	return max(0, shortest)
}

// trailingIdle returns how long the last steps are known to be below a load.
func trailingIdle(steps []float64, below float64, step time.Duration) time.Duration {
	count := 0
	for i := len(steps) - 1; i >= 0 && steps[i] >= 0 && steps[i] < below; i-- {
		count++
	}
	return time.Duration(count) * step
}

// Decision is the action for a job.
type Decision int

// The actions.
const (
	// Leave does nothing.
	Leave Decision = iota
	// Warn records a warning.
	Warn
	// Pause pauses the job.
	Pause
)

// Decide returns the action for a job that has been idle for the given time. timeout is the job's own, 0 for none.
func Decide(idle, timeout, warnAfter time.Duration) Decision {
	switch {
	case timeout > 0 && idle >= timeout:
		return Pause
	case warnAfter > 0 && idle >= warnAfter:
		return Warn
	}
	return Leave
}
