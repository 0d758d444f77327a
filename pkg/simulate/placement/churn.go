package placement

import (
	"container/heap"
	"math/rand"

	"g8s.host/gpu-scheduler/pkg/simulate/openb"
)

// Churn is a run in which pods also leave. Time is in mean lifetimes.
type Churn struct {
	// Load is the GPUs asked for at any time, were no pod lost, as a share of all.
	Load float64
	// WarmUp is how long the run goes before anything is measured, Measured how long it is measured.
	WarmUp, Measured float64
	Seed             int64
}

// ChurnResult is what came of it.
type ChurnResult struct {
	// Allocated is the share of all GPUs that was allocated, in percent, over time.
	Allocated float64
	// Accepted is the share of the pods of 8 GPUs that got a node, in percent.
	Accepted float64
}

// leaving is a pod and when it leaves.
type leaving struct {
	time  float64
	pod   *openb.Pod
	at    int
	cards Cards
}

type departures []leaving

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].time < d[j].time }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *departures) Push(x any) { *d = append(*d, x.(leaving)) }

// Pop implements heap.Interface.
func (d *departures) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// Run lets pods drawn from a trace arrive at random moments (a Poisson process), and stay for random times (exponential,
// of mean 1). A pod that fits nowhere is lost.
func (c Churn) Run(nodes []openb.Node, trace []openb.Pod, policy Policy) ChurnResult {
	random := rand.New(rand.NewSource(c.Seed)) //nolint:gosec // it has to be the same each time
	cluster, capacity := NewCluster(nodes, policy), Capacity(nodes)
	asked := int64(0)
	for i := range trace {
		asked += trace[i].TotalMilliGPU()
	}
	rate := c.Load * float64(capacity) * float64(len(trace)) / float64(asked)
	var gone departures
	now, allocated, area, large, accepted := 0.0, int64(0), 0.0, 0, 0
	elapse := func(until float64) {
		area += float64(allocated) * max(0, until-max(now, c.WarmUp))
		now = until
	}
	for end := c.WarmUp + c.Measured; ; {
		next := now + random.ExpFloat64()/rate
		for len(gone) > 0 && gone[0].time < min(next, end) {
			left := heap.Pop(&gone).(leaving)
			elapse(left.time)
			cluster.Remove(left.pod, left.at, left.cards)
			allocated -= left.pod.TotalMilliGPU()
		}
		if elapse(min(next, end)); next >= end {
			break
		}
		pod := &trace[random.Intn(len(trace))]
		at, cards := cluster.Place(pod)
		if at >= 0 {
			allocated += pod.TotalMilliGPU()
			heap.Push(&gone, leaving{now + random.ExpFloat64(), pod, at, cards})
		}
		if pod.GPUs == MaxGPUs && now >= c.WarmUp {
			if large++; at >= 0 {
				accepted++
			}
		}
	}
	return ChurnResult{
		Allocated: 100 * area / c.Measured / float64(capacity),
		Accepted:  100 * float64(accepted) / float64(max(large, 1)),
	}
}
