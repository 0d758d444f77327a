package inventory

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// RefusalEvents queries the events that say why pods could not be created, of all namespaces, or else of the one that the user may read.
func RefusalEvents(namespace string) snapshot.Query {
	all := snapshot.Scope{Fields: snapshot.EventsWithReason(reasonFailedCreate)}
	return snapshot.Events(all).OrElse(refusalEvents(namespace))
}

// quotasByNamespace are the quotas by namespace; nil if they were not read, and then nothing follows from them.
type quotasByNamespace map[string][]corev1.ResourceQuota

func groupQuotas(quotas []corev1.ResourceQuota) quotasByNamespace {
	if quotas == nil {
		return nil
	}
	out := quotasByNamespace{}
	for i := range quotas {
		out[quotas[i].Namespace] = append(out[quotas[i].Namespace], quotas[i])
	}
	return out
}

// judgeBatchJob records the exhausted quotas for a job that lacks pods. All of them start together, except those of an array.
func (q quotasByNamespace) judgeBatchJob(out *Job, job *batchv1.Job) {
	lacking := out.countMissingPods()
	if q == nil || lacking == 0 {
		return
	}
	pod := templatePod(&job.Spec.Template)
	if out.Array != nil { // its tasks start one by one
		if lacking > out.countTerminating() {
			out.applyQuotaRefusal(quota.FindExcess(q[job.Namespace], pod, 1))
		}
		return
	}
	over := quota.FilterNeverFits(quota.FindExcess(q[job.Namespace], pod, int64(out.Desired)))
	// Each terminating pod counts until it has ended, and only then is the next one created in its place.
	if lacking -= out.countTerminating(); len(over) == 0 && lacking > 0 {
		over = quota.FindExcess(q[job.Namespace], pod, lacking)
	}
	out.applyQuotaRefusal(over)
}

// countTerminating is the number of terminating pods.
func (j *Job) countTerminating() int64 {
	return int64(countPods(j.Pods, func(p Pod) bool { return p.status == StatusTerminating }))
}

// judgeDeployment records the exhausted quotas for the next pod.
func (q quotasByNamespace) judgeDeployment(out *Job, deployment *appsv1.Deployment) {
	if q == nil || out.countMissingPods() == 0 {
		return
	}
	out.applyQuotaRefusal(quota.FindExcess(q[deployment.Namespace], templatePod(&deployment.Spec.Template), 1))
}

// countMissingPods is how many pods Kubernetes should have created and has not.
func (j *Job) countMissingPods() int64 {
	short := j.Status == StatusPending || j.Status == StatusDegraded || j.Status == StatusRunning && j.Array != nil
	if !short || j.Reason == ReasonIncomplete || j.Reason == ReasonWaitsForJobs || j.Reason == ReasonHeldByKueue {
		return 0
	}
	there := countPods(j.Pods, func(p Pod) bool {
		return p.status != StatusFailed && p.status != StatusTerminating && (j.Array == nil || p.status != StatusSucceeded)
	})
	return int64(max(0, j.Desired-there))
}

// applyQuotaRefusal records which quota is currently exhausted. It clears an event about a quota that would admit the pods now.
func (j *Job) applyQuotaRefusal(over []quota.Excess) {
	switch {
	case len(over) > 0:
		j.Excess, j.Refused = &over[0], int32(j.countMissingPods())
		if j.QuotaBehind != "" || j.Refusal != "" && reason.CauseOfRefusal(j.Refusal) != reason.QuotaExceeded {
			return // it waits for that job, or is refused before the API server asks a quota
		}
		j.Trouble = Trouble{Reason: quota.Reason, Message: over[0].String()}
	case strings.Contains(j.Message, exceededQuota):
		j.Refusal = ""
		j.Trouble = Trouble{Reason: reasonNoPods, Message: "a quota refused the pods, and has room by now: Kubernetes tries again by itself"}
	}
}

// exceededQuota is the API server's text about pods that a quota rejects.
const exceededQuota = "exceeded quota"

func templatePod(template *corev1.PodTemplateSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}
