package reservation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Phase is where a time lies: before, within or after the window.
func (w *Window) Phase(now time.Time) names.ReservationPhase {
	switch {
	case now.Before(w.From):
		return names.ReservationUpcoming
	case now.Before(w.To):
		return names.ReservationActive
	}
	return names.ReservationOver
}

// Turn is when the phase is another one, the zero time for never again.
func (w *Window) Turn(now time.Time) time.Time {
	switch w.Phase(now) {
	case names.ReservationUpcoming:
		return w.From
	case names.ReservationActive:
		return w.To
	}
	return time.Time{}
}

// InTheWay reports whether a pod on a node of the window may not be there meanwhile, and could be: it is there, and nothing ends it
// before. Pods of the node itself, as those of DaemonSets, are in nobody's way. After the window nobody is.
func (w *Window) InTheWay(pod *corev1.Pod, now time.Time) bool {
	if w.Phase(now) == names.ReservationOver || w.admits(pod.Namespace) || gpu.HasEnded(pod) || gpu.BelongsToNode(pod) {
		return false
	}
	if !now.Before(w.From) {
		return true
	}
	gone, limited := Gone(pod, now)
	return !limited || gone.After(w.From)
}
