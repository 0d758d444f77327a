package placement

import (
	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Moves is how many moves a cluster bears.
type Moves struct {
	// PerPod bounds the moves for one pod that waits.
	PerPod int
	// Share of the running pods may be moved in each Period; what is not used in one is lost. The period is in mean
	// lifetimes.
	Share, Period float64
}

// moveTries bounds the time that is spent on one plan, to a second.
const moveTries = 1 << 16

// worthMoving is how many GPUs a pod must ask for. A place for one GPU comes free before anything has been moved.
const worthMoving = 2

// Moved is what was moved in a run, while it was measured.
type Moved struct {
	// Pods is how many pods got a node by that, and GPUs what they asked for.
	Pods int
	GPUs int64
	// Moves is how many moves were made, and Milli what the pods that were moved held, in thousandths of a GPU.
	Moves int
	Milli int64
	// Share is the moves in a mean lifetime, as a share of the running pods.
	Share float64
}

// during returns it with the share that it is of so many pods in so many lifetimes.
func (m Moved) during(lifetimes float64, running int) Moved {
	m.Share = float64(m.Moves) / lifetimes / float64(max(running, 1))
	return m
}

// budget is what is left to be moved: a bucket that fills with time, and holds what one period brings.
type budget struct {
	*Moves
	now, left, running float64
	moved              Moved
}

// allows reports whether anything may be moved for a pod.
func (b *budget) allows(pod *trace.Pod, now float64, running int) bool {
	if b.Moves == nil || pod.GPUs < worthMoving {
		return false
	}
	b.running = float64(running)
	most := b.Share * b.running
	b.left = min(most, b.left+most*(now-b.now)/b.Period)
	b.now = now
	return b.left >= 1
}

// limits are those of the next plan.
func (b *budget) limits() moves.Limits {
	return moves.Limits{Moves: min(b.PerPod, int(b.left)), Tries: moveTries}
}

// spend notes the moves that were made for a pod.
func (b *budget) spend(pod *trace.Pod, plan *moves.Plan[*tenant]) {
	if len(plan.Moves) == 0 {
		return
	}
	b.left -= float64(len(plan.Moves))
	b.moved.Pods++
	b.moved.GPUs += pod.GPUs
	b.moved.Moves += len(plan.Moves)
	b.moved.Milli += plan.Milli
}
