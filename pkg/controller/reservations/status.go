// Package reservations keeps the status of GPUReservations: whether their windows have begun, and how many pods are in the way. It tells
// when somebody is still there as one begins, and evicts them where the reservation says so.
//
// [StatusOf] and what it calls are pure; the [Reconciler] reads the cluster from its cache, and writes.
package reservations

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// How often it is counted who is in the way. Nothing waits for the number, so pods that come and go are not followed.
const (
	// countsSoon is how often while a window lies near or has begun, countsLate before that, and evicts while some are evicted.
	countsSoon = 30 * time.Second
	countsLate = 10 * time.Minute
	evicts     = 5 * time.Second
	// near is how long before a window it is counted often.
	near = time.Hour
)

// StatusOf is the status of a reservation whose nodes have some pods, and which of those are in its way.
func StatusOf(r *g8s.GPUReservation, pods []corev1.Pod, now time.Time) (g8s.GPUReservationStatus, []*corev1.Pod) {
	window := reservation.Of(r)
	out := g8s.GPUReservationStatus{ObservedGeneration: r.Generation, Phase: window.Phase(now)}
	var inTheWay []*corev1.Pod
	nodes := map[string]bool{}
	for i := range pods {
		if window.InTheWay(&pods[i], now) {
			inTheWay = append(inTheWay, &pods[i])
			nodes[pods[i].Spec.NodeName] = true
		}
	}
	out.InTheWay, out.NodesInTheWay = int32(len(inTheWay)), int32(len(nodes))
	return out, inTheWay
}

// Begins reports whether somebody is still there as a window begins, which is told once.
func Begins(before, after g8s.GPUReservationStatus) bool {
	return after.Phase == g8s.ReservationActive && before.Phase != g8s.ReservationActive && after.InTheWay > 0
}

// NextLook is how long after a moment a reservation is to be looked at again, 0 for never.
func NextLook(r *g8s.GPUReservation, status g8s.GPUReservationStatus, now time.Time) time.Duration {
	window := reservation.Of(r)
	turn := window.Turn(now)
	if turn.IsZero() {
		return 0
	}
	wait := countsSoon
	switch {
	case status.Phase == g8s.ReservationUpcoming && window.From.Sub(now) > near:
		wait = min(countsLate, window.From.Sub(now)-near)
	case status.Phase == g8s.ReservationActive && r.Spec.Evict && status.InTheWay > 0:
		wait = evicts
	}
	return max(min(wait, turn.Sub(now)), time.Millisecond)
}

// ToEvict are those of the pods in the way of a reservation that are to be evicted now: not those that are leaving, and none that
// needs a person, as nothing would start it again or its author says so.
func ToEvict(r *g8s.GPUReservation, status g8s.GPUReservationStatus, inTheWay []*corev1.Pod) (out []*corev1.Pod) {
	if !r.Spec.Evict || status.Phase != g8s.ReservationActive {
		return nil
	}
	for _, pod := range inTheWay {
		if pod.DeletionTimestamp == nil && eviction.HoldOf(pod, eviction.Reservation) == "" {
			out = append(out, pod)
		}
	}
	return out
}
