package queueing

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// reservation is what a job was promised that waits.
type reservation interface {
	// at is when it shall start.
	at() time.Duration
	// spares says whether it can start then although pods of a gang are still on nodes.
	spares(gang trace.Gang, nodes []int) bool
	// take puts the pods there.
	take(gang trace.Gang, nodes []int)
}

// reserved is the reservation of a job.
type reserved struct {
	job *trace.Job
	reservation
}

// reservations are in the order in which they were made: each counts on those before it.
type reservations []reserved

// limit is for how long a gang may run at most on some nodes beside all that was promised: who ends by when a job is to start that has
// waited for less than trust, and anybody who spares it. It is less than 0 for none, and 0 trusts for ever.
func (r reservations) limit(now, trust time.Duration, gang trace.Gang, nodes []int) time.Duration {
	least := trace.MaxRuntime
	for _, to := range r {
		limit := to.at() - now
		if trust > 0 && now-to.job.Submit >= trust {
			limit = -1
		}
		if limit < least && !to.spares(gang, nodes) {
			least = limit
		}
	}
	return least
}

// take has a gang be on some nodes until a time.
func (r reservations) take(until time.Duration, gang trace.Gang, nodes []int) {
	for _, to := range r {
		if until > to.at() {
			to.take(gang, nodes)
		}
	}
}

// gpusReserved is a reservation in GPUs of the whole cluster.
type gpusReserved struct {
	start time.Duration
	// spare is how many GPUs are free beside the job when it shall start.
	spare int
}

// reserveGPUs looks at the ends of jobs only: where enough GPUs are free already, but scattered, it is the next.
func reserveGPUs(s *Session, job *trace.Job, _ reservations) reservation {
	free := s.Cluster().Idle()
	for _, run := range s.Running() {
		free += run.Job.GPUs
		if free >= job.GPUs {
			return &gpusReserved{start: run.End, spare: free - job.GPUs}
		}
	}
	return &gpusReserved{start: s.Now()}
}

func (r *gpusReserved) at() time.Duration { return r.start }

func (r *gpusReserved) spares(gang trace.Gang, _ []int) bool { return gang.GPUs() <= r.spare }

func (r *gpusReserved) take(gang trace.Gang, _ []int) { r.spare -= gang.GPUs() }

// nodesReserved is a reservation on the cluster as it will be.
type nodesReserved struct {
	start time.Duration
	gang  trace.Gang
	// then is the cluster when the job shall start, without it.
	then *Cluster
}

func reserveNodes(s *Session, job *trace.Job, _ reservations) reservation {
	r := &nodesReserved{start: s.Now(), gang: job.Gang(), then: s.Cluster().clone()}
	for _, run := range s.Running() {
		if r.then.Fits(r.gang) {
			break
		}
		run.release(r.then)
		r.start = run.End
	}
	return r
}

func (r *nodesReserved) at() time.Duration { return r.start }

func (r *nodesReserved) spares(gang trace.Gang, nodes []int) bool {
	for pod, node := range nodes {
		if r.then.Free(node) < gang.GPUsOfPod(pod) {
			return false // the reservation has counted on what such a backfilled job left
		}
	}
	r.take(gang, nodes)
	defer r.then.release(gang, nodes)
	return r.then.Fits(r.gang)
}

func (r *nodesReserved) take(gang trace.Gang, nodes []int) { r.then.take(gang, nodes) }
