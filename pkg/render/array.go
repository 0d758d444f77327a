package render

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/reservation"
)

// makeArray turns the Job of one pod into that of an array: one pod per task, a limited number of them at a time. Each task has its own retries, and
// a task without any left does not end the others. Kubernetes sets JOB_COMPLETION_INDEX.
func (r *renderer) makeArray(spec *batchv1.JobSpec) {
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	spec.Completions, spec.Parallelism = ptr.To(r.job.Array.Tasks), ptr.To(r.job.Array.AtOnce)
	spec.BackoffLimit, spec.BackoffLimitPerIndex = nil, ptr.To(r.job.Retries)
	if most := max(minToleratedFailures, r.job.Array.Tasks/2); most < r.job.Array.Tasks {
		spec.MaxFailedIndexes = ptr.To(most)
	}
}

// minToleratedFailures is how many tasks of an array may always fail. If more have failed, and more than half of all, the program is broken: the
// array ends, instead of taking GPUs for all retries of each remaining task.
const minToleratedFailures = 10

// limitTime bounds how long a job runs. Kubernetes counts the deadline of a Job for all of its pods together, from the Job's creation: an array would
// be killed before most of its tasks begin. So each of its pods has its own deadline, which the node counts from when it accepted the pod. Pods of
// other jobs also have a deadline, which is later than the Job's: the scheduler sees only the pod, and has to know when it will be gone if nodes are
// reserved from a later time.
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
