// Package forecast tells between which moments jobs start that wait, where nobody knows when those end that run: it plays
// the line forward many times, each time with other run times as they may come (a Monte Carlo simulation), and leaves
// out the earliest and the latest of the starts.
//
// Jobs of a time are like each other, more than chance would have it: if those that run now take longer than most have, the next do so, too.
// Were each drawn for itself, a hundred of them would end as the average does, and the intervals would be far too narrow. So
// a part of the luck of each play is that of all jobs (a one-factor Gaussian copula).
//
// In each play whoever is the first in line of those that fit now starts, as the scheduler does it, and whose quotas allow it. Nobody else comes: jobs
// that are submitted later are not known, and a job that they overtake starts later than is said.
//
// It is pure, and its cost is bounded: chance comes from a fixed seed, so that equal states have equal forecasts.
package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// Amounts are what a node has of each resource, or a pod takes.
type Amounts [kinds]int64

// The resources.
const (
	GPUs = iota
	MilliCPU
	Memory
	Pods
	kinds
)

func (a *Amounts) holds(needs *Amounts) bool {
	for i := range a {
		if needs[i] > a[i] {
			return false
		}
	}
	return true
}

func (a *Amounts) add(other *Amounts, sign int64) {
	for i := range a {
		a[i] += sign * other[i]
	}
}

// State is a cluster, or the pool of one line.
type State struct {
	// Free is what each node has left.
	Free []Amounts
	// Running are jobs that give back what they hold when they end.
	Running []Running
	// Shapes are what jobs that wait ask, each once.
	Shapes []Shape
	// Waiting are the jobs in line, the first first.
	Waiting []Waiting
	// Quotas is what each quota has left.
	Quotas []int64
}

// Share is what is taken of a quota, by its place in State.Quotas.
type Share struct {
	Quota  int
	Amount int64
}

// Running is what is given back at once: by the pods of a job that end together, or by jobs that share cards, when the last
// of them ends.
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

// Shape is what the pods of a job ask that start together.
type Shape struct {
	Pods   []Pod
	Shares []Share
}

// Pod is what a pod asks.
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
	// Known is false where too many of the plays do not come to its start.
	Known bool
}

const (
	// Confidence is how probable it is that a job starts within its interval.
	Confidence = 0.9
	// samples is how many plays there are, and fewest how many must be for which there was time.
	samples, fewest = 100, 40
	// Budget is how many steps all plays of a state take together: about a second.
	Budget = 20_000_000
)

// Starts are the intervals of those that wait, in their order, up to the last of whom it is asked: who is behind them takes part, and is
// played no further than they are. The budget is how many steps that may take, which [Budget] is for most.
func Starts(state *State, asked, budget int) []Interval {
	asked = min(asked, len(state.Waiting)-1)
	starts := make([][]time.Duration, asked+1)
	p := newPlay(state, budget)
	for sample := range samples {
		for i, at := range p.run(rand.New(rand.NewPCG(uint64(sample), 1)), asked) {
			starts[i] = append(starts[i], at)
		}
		if p.exhausted() {
			break
		}
	}
	out := make([]Interval, asked+1)
	for i, at := range starts {
		if len(at) >= fewest {
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
