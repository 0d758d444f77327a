// Package forecast estimates between which times waiting jobs start, although the end times of running jobs are unknown: it simulates the queue
// many times with different possible run times (a Monte Carlo simulation), and drops the earliest and the latest starts.
//
// Run times of jobs at one time are correlated: if the running ones take longer than most have, the next ones do, too. With independent samples
// a hundred of them would end as the average does, and the intervals would be far too narrow. So a part of the luck of each simulation is common
// to all jobs (a one-factor Gaussian copula).
//
// In each simulation the first job in the queue that fits and whose quotas allow it starts, as in the scheduler. There are no arrivals: later
// submissions are unknown, and a job that they overtake starts later than estimated.
//
// It is pure, and its cost is bounded: random numbers come from a fixed seed, so equal states have equal forecasts.
package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// Amounts are the amounts of each resource of a node, or of a pod.
type Amounts [kinds]int64

// The resources.
const (
	GPUs = iota
	MilliCPU
	Memory
	Pods
	kinds
)

func (a *Amounts) canHold(needs *Amounts) bool {
	for i := range a {
		if needs[i] > a[i] {
			return false
		}
	}
	return true
}

func (a *Amounts) addAmounts(other *Amounts, sign int64) {
	for i := range a {
		a[i] += sign * other[i]
	}
}

// State is a cluster, or the pool of one queue.
type State struct {
	// Free is what each node has left.
	Free []Amounts
	// Running are jobs that release what they hold when they end.
	Running []Running
	// Shapes are the distinct requests of waiting jobs.
	Shapes []Shape
	// Waiting are the jobs in the queue, in order.
	Waiting []Waiting
	// Quotas is what each quota has left.
	Quotas []int64
}

// Share is what is taken of a quota, by its place in State.Quotas.
type Share struct {
	Quota  int
	Amount int64
}

// Running is a set of resources that are released together: by the pods of a job that end together, or by jobs that share GPUs, when the last of
// them ends.
type Running struct {
	Holds  []Hold
	Shares []Share
	Ends   []survival.Distribution
}

// Hold is what is held of a node.
type Hold struct {
	Node    int
	Amounts Amounts
}

// Shape is the requests of a job's pods that start together.
type Shape struct {
	Pods   []Pod
	Shares []Share
}

// Pod is the request of a pod.
type Pod struct {
	Needs Amounts
	// On are the nodes that take it, nil for all.
	On *Nodes
}

// Waiting is a job that waits.
type Waiting struct {
	// Shape is its place in State.Shapes.
	Shape int
	// Runs is how long it will run.
	Runs survival.Distribution
}

// Interval is when a job starts, from now on.
type Interval struct {
	Earliest, Latest time.Duration
	// Known is false if too many of the simulations do not reach its start.
	Known bool
}

const (
	// Confidence is how probable it is that a job starts within its interval.
	Confidence = 0.9
	// samples is the number of simulations, and minSamples the minimum number that must be completed.
	samples, minSamples = 100, 40
	// Budget is the number of steps of all simulations of a state: about a second.
	Budget = 20_000_000
)

// StartIntervals returns the intervals of waiting jobs, in order, up to the last requested one: jobs behind it take part, but only up to that
// point. The budget is the maximum number of steps; [Budget] is enough for most.
func StartIntervals(state *State, asked, budget int) []Interval {
	asked = min(asked, len(state.Waiting)-1)
	starts := make([][]time.Duration, asked+1)
	p := newSimulation(state, budget)
	for sample := range samples {
		for i, at := range p.simulateStarts(rand.New(rand.NewPCG(uint64(sample), 1)), asked) {
			starts[i] = append(starts[i], at)
		}
		if p.isExhausted() {
			break
		}
	}
	out := make([]Interval, asked+1)
	for i, at := range starts {
		if len(at) >= minSamples {
			out[i] = intervalOf(at)
		}
	}
	return out
}

func intervalOf(starts []time.Duration) Interval {
	slices.Sort(starts)
	at := func(p float64) time.Duration {
		return starts[min(max(int(math.Ceil(p*float64(len(starts))))-1, 0), len(starts)-1)]
	}
	const tail = (1 - Confidence) / 2
	out := Interval{Earliest: at(tail), Latest: at(1 - tail)}
	if out.Latest == survival.Never {
		return Interval{}
	}
	out.Known = true
	return out
}
