package reservation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// overdue is how long after its end a pod that is there still is not expected to leave any more, as on a dead node.
const overdue = time.Minute

// Gone is when a pod that has a node is gone from it at the latest, and false for one that may be there for ever: without a
// deadline of its own, or there long after it.
func Gone(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	stay, limited := Stay(pod)
	end := now.Add(stay)
	switch {
	case pod.DeletionTimestamp != nil: // its grace period is in it
		end = pod.DeletionTimestamp.Time
	case !limited:
		return time.Time{}, false
	case pod.Status.StartTime != nil:
		end = pod.Status.StartTime.Add(stay - Margin)
	}
	if now.Sub(end) > overdue {
		return time.Time{}, false
	}
	if end.Before(now) {
		end = now
	}
	return end, true
}
