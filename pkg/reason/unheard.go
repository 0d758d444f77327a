package reason

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// SlowProfile is the age of a pod that a running scheduler has looked at, behind all but very many others.
const SlowProfile = time.Minute

// Attention is when each scheduler has last looked at a pod, by its name. A configuration of gpu-scheduler may lack a profile that pods name, such as
// the one of KubeRay: then the scheduler runs, and never tries their pods.
type Attention map[string]time.Time

// AttentionTo reads that of the pods.
func AttentionTo(pods []corev1.Pod) Attention {
	out := Attention{}
	for i := range pods {
		if looked, ok := lookedAt(&pods[i]); ok && looked.After(out[pods[i].Spec.SchedulerName]) {
			out[pods[i].Spec.SchedulerName] = looked
		}
	}
	return out
}

// lookedAt is when a scheduler has looked at a pod: the API server alone writes that a pod is gated. A pod that is nominated for a node, as each is whose
// binding takes long, was looked at since it was created; when is not written.
func lookedAt(pod *corev1.Pod) (time.Time, bool) {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason != corev1.PodReasonSchedulingGated
	})
	if at >= 0 {
		return pod.Status.Conditions[at].LastTransitionTime.Time, true
	}
	return pod.CreationTimestamp.Time, pod.Status.NominatedNodeName != ""
}

// IsUnheard reports whether a pod names a profile of gpu-scheduler other than the one of gpuctl's jobs, and is ignored. led is when the scheduler began to
// lead, zero where that is unknown: before that no profile has looked at anything.
func (a Attention) IsUnheard(pod *corev1.Pod, led, now time.Time) bool {
	return names.IsOurScheduler(pod.Spec.SchedulerName) && now.Sub(led) > SlowProfile && a.IsIgnored(pod, now)
}

// IsIgnored reports whether a pod names another scheduler than the one of gpuctl's jobs, and no scheduler by that name has looked at any pod since the pod
// was created, though it has had the time. Times have whole seconds, so that one in the same second may have come later.
func (a Attention) IsIgnored(pod *corev1.Pod, now time.Time) bool {
	name, created := pod.Spec.SchedulerName, pod.CreationTimestamp.Time
	if name == names.SchedulerName || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil ||
		pod.Status.Phase != corev1.PodPending || len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	_, looked := lookedAt(pod)
	return !looked && now.Sub(created) > SlowProfile && a[name].Before(created)
}
