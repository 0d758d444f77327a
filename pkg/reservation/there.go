package reservation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// PhaseAt returns whether a time is before, within or after the window.
func (w *Window) PhaseAt(now time.Time) names.ReservationPhase {
	switch {
	case now.Before(w.From):
		return names.ReservationUpcoming
	case now.Before(w.To):
		return names.ReservationActive
	}
	return names.ReservationOver
}

// NextPhaseChange returns when the phase changes next, the zero time for never.
func (w *Window) NextPhaseChange(now time.Time) time.Time {
	switch w.PhaseAt(now) {
	case names.ReservationUpcoming:
		return w.From
	case names.ReservationActive:
		return w.To
	}
	return time.Time{}
}

// InTheWay reports whether a pod on a node of the window could still be there during the window without being admitted: it is there, and nothing ends
// it before. Pods of the node itself, as those of DaemonSets, are never in the way. After the window no pod is.
func (w *Window) InTheWay(pod *corev1.Pod, now time.Time) bool {
	if w.PhaseAt(now) == names.ReservationOver || w.admitsNamespace(pod.Namespace) || gpu.HasEnded(pod) || gpu.BelongsToNode(pod) {
		return false
	}
	if !now.Before(w.From) {
		return true
	}
	gone, limited := GoneBy(pod, now)
	return !limited || gone.After(w.From)
}
