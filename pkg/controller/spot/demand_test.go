package spot

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

func waits(gpus int64, since time.Duration) corev1.Pod {
	pod := fixture.Pod("p").GPUs(gpus).Obj()
	pod.CreationTimestamp = metav1.NewTime(t0.Add(-since))
	return *pod
}

func machinesOf(gpus, most int32) *g8s.SpotPoolSpec {
	return &g8s.SpotPoolSpec{Pool: "default", Maximum: most, Template: g8s.MachineTemplate{GPUs: gpus}}
}

// TestWhatWaitsFillsMachines: who has not waited long enough, cannot run there or is gated buys none.
func TestWhatWaitsFillsMachines(t *testing.T) {
	gated := waits(8, time.Hour)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	tests := map[string]struct {
		pods []corev1.Pod
		want int
	}{
		"nothing waits":          {},
		"one that fills one":     {pods: []corev1.Pod{waits(8, time.Hour)}, want: 1},
		"the largest first":      {pods: []corev1.Pod{waits(2, time.Hour), waits(5, time.Hour), waits(6, time.Hour), waits(3, time.Hour)}, want: 2},
		"one that has just come": {pods: []corev1.Pod{waits(8, time.Second)}},
		"one that is too large":  {pods: []corev1.Pod{waits(9, time.Hour)}},
		"one that is gated":      {pods: []corev1.Pod{gated}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := machinesToFill(waitingTooLong(tc.pods, 30*time.Second, t0), machinesOf(8, 10)); got != tc.want {
				t.Errorf("it fills %d machines, want %d", got, tc.want)
			}
		})
	}
}

// TestVeryManyThatWait are not all counted, which would take time with the square of their number: there is a bound to what is bought.
func TestVeryManyThatWait(t *testing.T) {
	pods := slices.Repeat([]corev1.Pod{waits(5, time.Hour)}, 100_000)
	if got := machinesToFill(waitingTooLong(pods, 0, t0), machinesOf(8, 500)); got != 1000 {
		t.Errorf("they fill %d machines, want 1000: twice the most", got)
	}
}
