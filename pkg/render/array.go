package render

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/reservation"
)

// makeArray turns the Job of one pod into that of an array: a pod for each task, of which a number runs at a time. Each
// has retries of its own, and one that has none left does not end the others. Kubernetes sets JOB_COMPLETION_INDEX.
func (r *renderer) makeArray(spec *batchv1.JobSpec) {
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	spec.Completions, spec.Parallelism = ptr.To(r.job.Array.Tasks), ptr.To(r.job.Array.AtOnce)
	spec.BackoffLimit, spec.BackoffLimitPerIndex = nil, ptr.To(r.job.Retries)
	if most := max(leastFailures, r.job.Array.Tasks/2); most < r.job.Array.Tasks {
		spec.MaxFailedIndexes = ptr.To(most)
	}
}

// leastFailures is how many tasks of an array may always fail. Once more have, and more than half of all, the program is
// broken: it is ended, and does not take GPUs for each task that is left as often as there are retries.
const leastFailures = 10

// limitTime bounds how long a job runs. Kubernetes counts the deadline of a Job for all of its pods together, from when the
// Job was made: an array would be killed with most of its tasks not begun. So each of its pods has one of its own, which
// the node counts from when it took the pod. Pods of other jobs have one, too, that comes after the Job's: the scheduler sees
// the pod alone, and has to know when it is gone where nodes are kept for others from a time on.
func (r *renderer) limitTime(spec *batchv1.JobSpec) {
	limit := r.job.Resources.TimeLimit
	switch {
	case limit == nil:
	case r.job.Array != nil:
		spec.Template.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds()))
	default:
		spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds()))
		spec.Template.Spec.ActiveDeadlineSeconds = ptr.To(int64((*limit + reservation.DeadlineSlack).Seconds()))
	}
}
