// Package idle finds jobs whose GPUs do nothing: it warns of them, and pauses those that ask for it. A paused job keeps its
// volumes, and is resumed by its user.
//
// How busy a GPU was comes from Prometheus. A job is idle for as long as all of its GPUs are known to have been, without a
// gap: what was not measured, or cannot be, counts as busy.
package idle

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
)

// Card is one that a pod holds.
type Card struct {
	UUID, Node string
	Index      int
}

// Pod is a pod of a job.
type Pod struct {
	// Started is when its last container did, zero for one that does not run wholly.
	Started time.Time
	// Cards are those it holds, none where they are not known.
	Cards []Card
}

// For is for how long all GPUs of the pods have been idle until the end of what is known of the past, less busy than below in
// percent all the time. It is no longer than that past, and than the youngest pod has run.
func For(pods []Pod, past *gpumetrics.Past, below float64) time.Duration {
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
	if p.Started.IsZero() || len(p.Cards) == 0 {
		return 0
	}
	shortest := past.End.Sub(p.Started)
	for _, card := range p.Cards {
		shortest = min(shortest, quiet(past.Of(card.UUID, card.Node, card.Index), below, past.Step))
	}
	return max(0, shortest)
}

// quiet is how long the last steps have been known to be below a load.
func quiet(steps []float64, below float64, step time.Duration) time.Duration {
	count := 0
	for i := len(steps) - 1; i >= 0 && steps[i] >= 0 && steps[i] < below; i-- {
		count++
	}
	return time.Duration(count) * step
}

// Verdict is what to do about a job.
type Verdict int

// The verdicts.
const (
	// Leave it alone.
	Leave Verdict = iota
	// Warn of it.
	Warn
	// Pause it.
	Pause
)

// Decide decides about a job that has been idle for so long: timeout is the one that it asks for, 0 for none.
func Decide(idle, timeout, warnAfter time.Duration) Verdict {
	switch {
	case timeout > 0 && idle >= timeout:
		return Pause
	case warnAfter > 0 && idle >= warnAfter:
		return Warn
	}
	return Leave
}
