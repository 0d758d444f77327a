package partial

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/condition"
)

// maxExit bounds how long a gang waits for the place of a member of its own that still ends, however long its grace period is.
const maxExit = 30 * time.Second

// IsLost reports whether a pod that is gone from its node, or leaves it, was lost: something deletes it, or the scheduler evicted it. A member that
// has ended by itself is not lost. kube-scheduler's informer leaves ended pods out, so such a member is reported as deleted, with its last state
// before; nothing was about to delete it.
func IsLost(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || WasPreempted(pod) }

// IsLeaving reports whether a pod still ends on its node after it was lost.
func IsLeaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// WasPreempted reports whether the scheduler, and not its user, made a pod leave.
func WasPreempted(pod *corev1.Pod) bool {
	disrupted := condition.TrueOfPod(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == corev1.PodReasonPreemptionByScheduler
}

// AwaitedUntil returns until when a gang waits for the places of lost members that still end, the zero time if it waits for none. A member that is
// made again may take such a place where the node is open to it, unless the scheduler gave the place to another pod.
func AwaitedUntil(leaving []*corev1.Pod, isNodeOpen func(*corev1.Pod) bool, now time.Time) (until time.Time) {
	for _, pod := range leaving {
		if WasPreempted(pod) || !isNodeOpen(pod) {
			continue
		}
		if at := exitOf(pod); at.After(now) && at.After(until) {
			until = at
		}
	}
	return until
}

// exitOf returns until when a pod that is being deleted is expected to end: with its grace period, and at most [maxExit] after its deletion began.
func exitOf(pod *corev1.Pod) time.Time {
	over := max(0, ptr.Deref(pod.DeletionGracePeriodSeconds, 0)-int64(maxExit/time.Second)) // in seconds: some users' values overflow a duration
	const most = int64(365 * 24 * time.Hour / time.Second)
	return pod.DeletionTimestamp.Add(-time.Duration(min(over, most)) * time.Second)
}
