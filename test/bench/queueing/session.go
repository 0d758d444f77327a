package queueing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Policy decides which of the waiting jobs get GPUs, and on which nodes.
type Policy interface {
	// Submit tells the policy of a job that has arrived.
	Submit(job *trace.Job)
	// Schedule gives GPUs to what shall have them now. It is called once for each instant at which jobs end or arrive,
	// after all of them have.
	Schedule(s *Session) error
}

// Running is a job that has all its GPUs.
type Running struct {
	Job *trace.Job
	// Nodes holds the node of each pod of the job's gang.
	Nodes []int
	// End is when the job will have run.
	End time.Duration
}

// Start is when the job had all its GPUs.
func (r *Running) Start() time.Duration { return r.End - r.Job.Runtime }

// Session is what a policy sees and changes: the cluster at one instant of virtual time.
type Session struct {
	now     time.Duration
	cluster *Cluster
	// running is in order of end.
	running []*Running
	// ended are those that have ended at this instant.
	ended []*Running
	// held are the nodes of the pods that are bound while their gang is incomplete.
	held     map[*trace.Job][]int
	outcomes []Outcome
	totals   Totals
	window   time.Duration
}

// Now is the virtual time.
func (s *Session) Now() time.Duration { return s.now }

// Cluster is what is free now. It changes with Bind.
func (s *Session) Cluster() *Cluster { return s.cluster }

// Running are the jobs that run, in order of their end, which is known to clairvoyant policies alone.
func (s *Session) Running() []*Running { return s.running }

// Ended are the jobs that have ended at this instant: from them a policy that is not clairvoyant may learn.
func (s *Session) Ended() []*Running { return s.ended }

// Bind gives a node each to the next pods of a job. The job starts with its last pod; until then the pods hold their
// GPUs idle.
func (s *Session) Bind(job *trace.Job, nodes ...int) error {
	gang, bound := job.Gang(), s.held[job]
	if left := gang.PodCount() - len(bound); s.outcomes[job.ID].Started || len(nodes) == 0 || len(nodes) > left {
		return fmt.Errorf("binding job %d: it has %d pods to bind, not %d", job.ID, left, len(nodes))
	}
	for i, node := range nodes {
		gpus := gang.GPUsOfPod(len(bound) + i)
		if node < 0 || node >= s.cluster.Nodes() || s.cluster.Free(node) < gpus {
			return fmt.Errorf("binding job %d: node %d has no %d GPUs free", job.ID, node, gpus)
		}
		s.cluster.set(node, s.cluster.Free(node)-gpus)
	}
	s.held[job] = append(bound, nodes...)
	if len(s.held[job]) == gang.PodCount() {
		s.start(job, s.held[job])
		delete(s.held, job)
	}
	return nil
}

// Start binds all pods of a job to the nodes that fit best, or none and returns false.
func (s *Session) Start(job *trace.Job) (bool, error) {
	nodes, ok := s.cluster.BestFit(job.Gang())
	if !ok {
		return false, nil
	}
	return true, s.Bind(job, nodes...)
}

func (s *Session) start(job *trace.Job, nodes []int) {
	run := &Running{Job: job, Nodes: nodes, End: s.now + job.Runtime}
	at, _ := slices.BinarySearchFunc(s.running, run, byEnd)
	s.running = slices.Insert(s.running, at, run)
	s.outcomes[job.ID] = Outcome{Job: job, Start: s.now, Started: true, Racks: s.cluster.racks(nodes)}
	s.totals.Busy += gpuTime(job.GPUs, min(run.End, s.window)-min(s.now, s.window))
}

// end takes the jobs off the cluster that have run by now.
func (s *Session) end() {
	done := 0
	for done < len(s.running) && s.running[done].End <= s.now {
		s.running[done].release(s.cluster)
		done++
	}
	s.ended = slices.Clone(s.running[:done])
	s.running = slices.Delete(s.running, 0, done)
}

func (r *Running) release(c *Cluster) { c.release(r.Job.Gang(), r.Nodes) }

func byEnd(a, b *Running) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Job.ID, b.Job.ID))
}
