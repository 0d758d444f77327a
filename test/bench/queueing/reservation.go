package queueing

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// gpusReserved is a reservation in GPUs of the whole cluster.
type gpusReserved struct {
	start time.Duration
	// spare is how many GPUs are free beside the job when it shall start.
	spare int
}

// reserveGPUs looks at the ends of jobs only: where enough GPUs are free already, but scattered, it is the next.
func reserveGPUs(s *Session, job *trace.Job) reservation {
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

func reserveNodes(s *Session, job *trace.Job) reservation {
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
		if r.then.Free(node) < gang.Pod(pod) {
			return false // the reservation has counted on what such a backfilled job left
		}
	}
	r.take(gang, nodes)
	defer r.then.release(gang, nodes)
	return r.then.Fits(r.gang)
}

func (r *nodesReserved) take(gang trace.Gang, nodes []int) {
	for pod, node := range nodes {
		r.then.set(node, r.then.Free(node)-gang.Pod(pod))
	}
}
