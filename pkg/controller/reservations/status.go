// Package reservations keeps the status of GPUReservations: whether their windows have begun, and how many pods are in the way. It records an event
// if pods remain when a window begins, and evicts them if the reservation says so.
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

// How often the pods in the way are counted. Nothing depends on the exact number, so pods are not watched.
const (
	// recountSoon is the interval while a window is near or active, recountLater before that, and evictInterval while pods are being evicted.
	recountSoon   = 30 * time.Second
	recountLater  = 10 * time.Minute
	evictInterval = 5 * time.Second
	// near is how long before a window the short interval applies.
	near = time.Hour
)

// StatusOf returns the status of a reservation whose nodes have the given pods, and the pods that are in its way.
func StatusOf(r *g8s.GPUReservation, pods []corev1.Pod, now time.Time) (g8s.GPUReservationStatus, []*corev1.Pod) {
	window := reservation.WindowOf(r)
	out := g8s.GPUReservationStatus{ObservedGeneration: r.Generation, Phase: window.PhaseAt(now)}
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

// StartsBlocked reports whether pods are still in the way as a window begins, which is reported once.
func StartsBlocked(before, after g8s.GPUReservationStatus) bool {
	return after.Phase == g8s.ReservationActive && before.Phase != g8s.ReservationActive && after.InTheWay > 0
}

// NextCheck returns how long after a time a reservation must be checked again, 0 for never.
func NextCheck(r *g8s.GPUReservation, status g8s.GPUReservationStatus, now time.Time) time.Duration {
	window := reservation.WindowOf(r)
	turn := window.NextPhaseChange(now)
	if turn.IsZero() {
		return 0
	}
	wait := recountSoon
	switch {
	case status.Phase == g8s.ReservationUpcoming && window.From.Sub(now) > near:
		wait = min(recountLater, window.From.Sub(now)-near)
	case status.Phase == g8s.ReservationActive && r.Spec.Evict && status.InTheWay > 0:
		wait = evictInterval
	}
	return max(min(wait, turn.Sub(now)), time.Millisecond)
}

// ToEvict returns the pods in the way of a reservation that must be evicted now. It skips pods that are terminating, and pods that require a decision
// by an administrator: nothing would recreate them, or their author forbids it.
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
