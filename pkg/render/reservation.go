package render

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Reservation returns the GPUReservation of a reservation that is created at the given time. Times are truncated to seconds, as Kubernetes stores
// them.
func Reservation(r *workload.Reservation, made time.Time) *names.GPUReservation {
	from, to := r.Window(made)
	return &names.GPUReservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUReservation"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: names.GPUReservationSpec{
			Pool: r.Pool, Nodes: r.Nodes, From: truncateToSecond(from), To: truncateToSecond(to), Namespaces: r.Namespaces,
			Reason: strings.TrimSpace(r.Reason), Evict: r.Evict,
		},
	}
}

func truncateToSecond(at time.Time) metav1.Time {
	return metav1.NewTime(at.UTC().Truncate(time.Second))
}
