package queueing

import (
	"cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// PodByPod binds every pod that fits, in order of submission, as kube-scheduler does without gang scheduling: the pods
// of an incomplete gang hold their GPUs. Jobs submitted at the same instant have their pods created in turn.
func PodByPod() Policy {
	p := &podByPod{bound: map[*trace.Job]int{}}
	p.queue = newWaiting(p.before)
	return p
}

type podByPod struct {
	// queue has each job once, in the part of its next pod's size.
	queue *waiting
	// bound is how many pods of a waiting job have a node.
	bound map[*trace.Job]int
}

func (p *podByPod) Submit(job *trace.Job) { p.queue.push(job.Gang().GPUsOfPod(0), job) }

func (p *podByPod) Schedule(s *Session) error {
	return p.queue.pass(func(job *trace.Job) (bool, error) {
		gang, next := job.Gang(), p.bound[job]
		node, ok := s.Cluster().BestNode(gang.GPUsOfPod(next))
		if !ok {
			return false, nil
		}
		if next++; next < gang.PodCount() {
			p.bound[job] = next
			p.queue.push(gang.GPUsOfPod(next), job)
		} else {
			delete(p.bound, job)
		}
		return true, s.Bind(job, node)
	})
}

func (p *podByPod) before(a, b *trace.Job) bool {
	return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(p.bound[a], p.bound[b]), cmp.Compare(a.ID, b.ID)) < 0
}
