package partial

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
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

// HasLostMember reports whether pods tell that a gang has lost a member that no other one replaced: of the members that it needed, more still end than
// bound ones were made since the first of them was deleted. A member that ends by itself is no loss, whichever others still end on dead nodes. A
// member without a plan beside others with one came when the gang was whole without it. If all bound members were made since, those that end are
// of an earlier start.
func HasLostMember(m *placement.Members, leaving []*corev1.Pod) bool {
	bound := boundOf(m)
	if slices.ContainsFunc(bound, hasPlan) {
		leaving = slices.DeleteFunc(slices.Clone(leaving), func(pod *corev1.Pod) bool { return !hasPlan(pod) })
	}
	if len(leaving) == 0 {
		return false
	}
	first := slices.MinFunc(leaving, func(a, b *corev1.Pod) int { return deletedAt(a).Compare(deletedAt(b)) })
	made := 0
	for _, pod := range bound {
		if !pod.CreationTimestamp.Time.Before(deletedAt(first)) { // the API server writes whole seconds
			made++
		}
	}
	return made < min(len(leaving), len(bound))
}

func hasPlan(pod *corev1.Pod) bool { return planOf(pod) != "" }

// deletedAt returns when the deletion of a pod began.
func deletedAt(pod *corev1.Pod) time.Time {
	return endsBy(pod, ptr.Deref(pod.DeletionGracePeriodSeconds, 0))
}

// exitOf returns until when a pod that is being deleted is expected to end: with its grace period, and at most [maxExit] after its deletion began.
func exitOf(pod *corev1.Pod) time.Time {
	over := max(0, ptr.Deref(pod.DeletionGracePeriodSeconds, 0)-int64(maxExit/time.Second)) // in seconds: some users' values overflow a duration
	return endsBy(pod, over)
}

// endsBy returns the time so many seconds before the grace period of a pod ends, at most a year.
func endsBy(pod *corev1.Pod, seconds int64) time.Time {
	const most = int64(365 * 24 * time.Hour / time.Second)
	return pod.DeletionTimestamp.Add(-time.Duration(min(seconds, most)) * time.Second)
}
