package placement

import (
	"container/heap"
	"math/rand"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Churn is a run in which pods also leave. Time is in mean lifetimes.
type Churn struct {
	// Load is the GPUs asked for at any time, were no pod lost, as a share of all.
	Load float64
	// WarmUp is how long the run goes before anything is measured, Measured how long it is measured.
	WarmUp, Measured float64
	Seed             int64
	// Moves, if set, has running pods moved to make room for those that ask for several GPUs and fit nowhere.
	Moves *Moves
}

// ChurnResult is what came of it.
type ChurnResult struct {
	// Allocated is the share of all GPUs that was allocated, in percent, over time.
	Allocated float64
	// Accepted is the share of the pods of 8 GPUs that got a node, in percent.
	Accepted float64
	// Refused is the share of all pods that were lost although they fitted on a node, which was kept whole, in percent.
	Refused float64
	// Moved is what was moved for it.
	Moved Moved
}

// leaving is a pod and when it leaves.
type leaving struct {
	time float64
	*tenant
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
func (c Churn) Run(nodes []trace.Node, pods []trace.Pod, policy Policy) ChurnResult {
	run := churning{
		Churn: c, random: rand.New(rand.NewSource(c.Seed)), //nolint:gosec // it has to be the same each time
		cluster: newTenants(nodes, policy), budget: budget{Moves: c.Moves},
	}
	asked := int64(0)
	for i := range pods {
		asked += pods[i].TotalMilliGPU()
	}
	capacity, end := float64(trace.TotalCapacity(nodes)), c.WarmUp+c.Measured
	rate := c.Load * capacity * float64(len(pods)) / float64(asked)
	for {
		next := run.now + run.random.ExpFloat64()/rate
		run.depart(min(next, end))
		if next >= end {
			return run.result(capacity)
		}
		run.arrive(&pods[run.random.Intn(len(pods))])
	}
}

// churning is a run.
type churning struct {
	Churn
	random    *rand.Rand
	cluster   *tenants
	budget    budget
	gone      departures
	now, area float64
	allocated int64
	// arrived is how many pods have come, refused how many of them got no node though they fitted on one.
	arrived, refused int
	// large is how many pods of the most GPUs have come, accepted how many of them got a node.
	large, accepted int
}

// elapse lets time pass in which nothing happens.
func (r *churning) elapse(until float64) {
	r.area += float64(r.allocated) * max(0, until-max(r.now, r.WarmUp))
	r.now = until
}

// depart lets time pass, and the pods leave whose time has come.
func (r *churning) depart(until float64) {
	for len(r.gone) > 0 && r.gone[0].time < until {
		left := heap.Pop(&r.gone).(leaving)
		r.elapse(left.time)
		r.cluster.leave(left.tenant)
		r.cluster.Left(left.pod)
		r.allocated -= left.pod.TotalMilliGPU()
	}
	r.elapse(until)
}

// arrive places a pod if it fits, or if moves are allowed that make room for it.
func (r *churning) arrive(pod *trace.Pod) {
	arrived := r.cluster.arrive(pod)
	if !arrived.placed() && r.budget.allows(pod, r.now, len(r.gone)) {
		plan := r.cluster.makeRoom(arrived, r.budget.limits())
		r.budget.spend(pod, &plan)
	}
	if arrived.placed() {
		r.allocated += pod.TotalMilliGPU()
		heap.Push(&r.gone, leaving{r.now + r.random.ExpFloat64(), arrived})
	} else {
		r.cluster.Left(pod)
	}
	if r.now < r.WarmUp {
		r.budget.moved = Moved{}
		return
	}
	r.count(pod, arrived.placed())
}

// count notes what became of a pod.
func (r *churning) count(pod *trace.Pod, placed bool) {
	if r.arrived++; !placed && r.cluster.Cluster.Fits(pod) {
		r.refused++
	}
	if pod.GPUs != MaxGPUs {
		return
	}
	if r.large++; placed {
		r.accepted++
	}
}

func (r *churning) result(capacity float64) ChurnResult {
	return ChurnResult{
		Allocated: 100 * r.area / r.Measured / capacity,
		Accepted:  100 * float64(r.accepted) / float64(max(r.large, 1)),
		Refused:   100 * float64(r.refused) / float64(max(r.arrived, 1)),
		Moved:     r.budget.moved.during(r.Measured, len(r.gone)),
	}
}
