// Package minruntime determines until when a pod may not be preempted, because it has not run for long enough.
package minruntime

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

// maxUserPriority is the highest priority of users. Services of the cluster are above.
const maxUserPriority = 1_000_000_000

// AppliesTo reports whether preemptors of a priority must respect the min-runtime of others. Services of the cluster need not.
func AppliesTo(priority int32) bool { return priority <= maxUserPriority }

// ProtectedUntil returns until when a pod on a node of a pool is protected from preemption. The zero time means that it is not.
func ProtectedUntil(pod *corev1.Pod, pool names.MinRuntimes) time.Time {
	began := beganAt(pod)
	if began.IsZero() || pod.DeletionTimestamp != nil {
		return time.Time{}
	}
	if long := pool.RuntimeFor(pod.Annotations); long > 0 {
		return began.Add(long)
	}
	return time.Time{}
}

// beganAt returns when a pod was started, or bound if its node has not reported it yet. The zero time is for a pod that is not bound.
func beganAt(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	bound := condition.TrueOfPod(pod, corev1.PodScheduled)
	if bound == nil {
		return time.Time{}
	}
	return bound.LastTransitionTime.Time
}
