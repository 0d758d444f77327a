package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestEstimatesKnowReservations: who is kept from a node starts when that ends, and whoever ends before it, or is it for, now.
func TestEstimatesKnowReservations(t *testing.T) {
	kept := func(from, to time.Duration, of string, namespaces ...string) names.GPUReservation {
		return names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: of}, Spec: names.GPUReservationSpec{
			Nodes: []string{of}, From: metav1.NewTime(t0.Add(from)), To: metav1.NewTime(t0.Add(to)), Namespaces: namespaces,
		}}
	}
	n1 := []corev1.Node{node("n1", "8")}
	tests := map[string]struct {
		objects *snapshot.Snapshot
		want    []int
	}{
		"kept for others": {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(time.Hour, 2*time.Hour, "n1")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}, []int{120}},
		"it ends before":  {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(time.Hour, 2*time.Hour, "n1")}, Pods: []corev1.Pod{task(asks("a", "8", 5, 0))}}, []int{0}},
		"kept for them":   {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(-time.Hour, time.Hour, "n1", "team")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}, []int{0}},
		"another node":    {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(-time.Hour, time.Hour, "n2")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}, []int{0}},
		"one after the other": {&snapshot.Snapshot{Nodes: n1, Pods: []corev1.Pod{asks("a", "8", 5, 0)},
			GPUReservations: []names.GPUReservation{kept(-time.Hour, time.Hour, "n1"), kept(2*time.Hour, 3*time.Hour, "n1")}}, []int{180}},
		"a job ends within the window": {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(-time.Hour, 2*time.Hour, "n1")},
			Jobs: []batchv1.Job{limited("runs", time.Hour)}, Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, 0)}}, []int{120}},
		"a job ends after the window": {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(-time.Hour, time.Hour, "n1")},
			Jobs: []batchv1.Job{limited("runs", 2*time.Hour)}, Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, 0)}}, []int{120}},
		"it is over": {&snapshot.Snapshot{Nodes: n1, GPUReservations: []names.GPUReservation{kept(-2*time.Hour, 0, "n1")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}, []int{0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, e := range Build(tc.objects, nil, nil, t0).Entries {
				minutes := -1
				if e.ETA != nil {
					minutes = int(e.ETA.Sub(t0).Minutes())
				}
				got = append(got, minutes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
