package reservation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// overdue is how long after its expected end a remaining pod no longer counts as leaving, as on a dead node.
const overdue = time.Minute

// GoneBy returns when a bound pod is gone from its node at the latest, and false for one that may stay forever: without a deadline of its own, or
// overdue.
func GoneBy(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	stay, limited := MaxStay(pod)
	end := now.Add(stay)
	switch {
	case pod.DeletionTimestamp != nil: // includes the grace period
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
