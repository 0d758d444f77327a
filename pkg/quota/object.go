package quota

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// FindJobExcess returns which quota has too little left for a job to be created: for all pods of a Job, which start together, or for the first pod of
// a Deployment or an array, whose pods start one by one. It is nil if there is enough.
func FindJobExcess(quotas []corev1.ResourceQuota, top runtime.Object) *Excess {
	template, pods := jobPods(top)
	if template == nil || pods == 0 {
		return nil
	}
	if job, ok := top.(*batchv1.Job); ok && IsArray(job) {
		pods = 1
	}
	over := FindExcess(quotas, &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, pods)
	if len(over) == 0 {
		return nil
	}
	return &over[0]
}

// WithJob returns the quotas with the pods of a job added to their current usage, for the next job.
func WithJob(quotas []corev1.ResourceQuota, top runtime.Object) []corev1.ResourceQuota {
	template, pods := jobPods(top)
	if template == nil || pods == 0 {
		return quotas
	}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	out := make([]corev1.ResourceQuota, len(quotas))
	for i := range quotas {
		out[i] = *quotas[i].DeepCopy()
		if CountsPod(&out[i], pod) {
			addPods(&out[i], pod, pods)
		}
	}
	return out
}

// addPods adds a number of identical pods to the usage.
func addPods(quota *corev1.ResourceQuota, pod *corev1.Pod, pods int64) {
	if quota.Status.Used == nil {
		quota.Status.Used = corev1.ResourceList{}
	}
	for name := range quota.Spec.Hard {
		used := quota.Status.Used[name]
		used.Add(multiplyQuantity(PodAmount(pod, name), pods))
		quota.Status.Used[name] = used
	}
}

// jobPods returns the pod template of a job, and how many pods are created at once.
func jobPods(top runtime.Object) (*corev1.PodTemplateSpec, int64) {
	switch job := top.(type) {
	case *batchv1.Job:
		if job.Spec.Suspend != nil && *job.Spec.Suspend {
			return &job.Spec.Template, 0
		}
		if job.Spec.Parallelism != nil {
			return &job.Spec.Template, int64(*job.Spec.Parallelism)
		}
		return &job.Spec.Template, 1
	case *appsv1.Deployment:
		if job.Spec.Replicas != nil && *job.Spec.Replicas == 0 {
			return &job.Spec.Template, 0
		}
		return &job.Spec.Template, 1
	}
	return nil, 0
}

// IsArray reports whether the pods of a Job are independent tasks. The members of a gang have indexes, too.
func IsArray(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion && job.Spec.Completions != nil &&
		!gang.JobStartsTogether(job)
}

// Warning is the message before the job is created.
func (e Excess) Warning() phrase.Text {
	if e.Never {
		return e.Message()
	}
	return e.Message().Addf(": it waits until that is free")
}
