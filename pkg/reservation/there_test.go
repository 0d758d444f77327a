package reservation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestPhase(t *testing.T) {
	w := Window{From: at(1), To: at(2)}
	tests := map[float64]struct {
		phase names.ReservationPhase
		turn  time.Time
	}{
		0: {names.ReservationUpcoming, at(1)}, 1: {names.ReservationActive, at(2)}, 1.5: {names.ReservationActive, at(2)},
		2: {names.ReservationOver, time.Time{}}, 3: {names.ReservationOver, time.Time{}},
	}
	for hours, want := range tests {
		if got, turn := w.PhaseAt(at(hours)), w.NextPhaseChange(at(hours)); got != want.phase || !turn.Equal(want.turn) {
			t.Errorf("%g h after noon it is %s until %s, want %s until %s", hours, got, turn, want.phase, want.turn)
		}
	}
}

func TestInTheWay(t *testing.T) {
	ahead, running := Window{From: at(2), To: at(4)}, Window{From: at(-1), To: at(1)}
	began := func(pod *corev1.Pod, hours float64) *corev1.Pod {
		pod.Status.StartTime = ptr.To(metav1.NewTime(at(hours)))
		return pod
	}
	changed := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := podFor("lab", 0)
		change(pod)
		return pod
	}
	tests := map[string]struct {
		window Window
		pod    *corev1.Pod
		want   bool
	}{
		"one without a limit":                 {ahead, podFor("lab", 0), true},
		"one that has ended by then":          {ahead, began(podFor("lab", 2*time.Hour), -1), false},
		"to the second, with its time to end": {ahead, began(podFor("lab", 2*time.Hour-30*time.Second), 0), false},
		"a second later":                      {ahead, began(podFor("lab", 2*time.Hour-29*time.Second), 0), true},
		"one that its node has not begun":     {ahead, podFor("lab", 2*time.Hour-80*time.Second), true},
		"one that was told to leave":          {ahead, changed(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(at(0.1))) }), false},
		"one that was told, and takes a day":  {ahead, changed(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(at(24))) }), true},
		"whom it is for":                      {Window{From: at(2), To: at(4), Namespaces: []string{"lab"}}, podFor("lab", 0), false},
		"one that has ended":                  {ahead, changed(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false},
		"one of a DaemonSet": {ahead, changed(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}}
		}), false},
		"one of a file of the node":                   {ahead, changed(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }), false},
		"one that is there after all":                 {running, began(podFor("lab", time.Second), -3), true},
		"one that is there, and is told to leave":     {running, changed(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(at(-2))) }), true},
		"one that whom it is for has there meanwhile": {Window{From: at(-1), To: at(1), Namespaces: []string{"lab"}}, podFor("lab", 0), false},
		"one that is there when it is over":           {Window{From: at(-2), To: at(0)}, podFor("lab", 0), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.window.InTheWay(tc.pod, noon); got != tc.want {
				t.Errorf("in the way: %v, want %v", got, tc.want)
			}
		})
	}
}
