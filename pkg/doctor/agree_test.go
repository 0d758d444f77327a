package doctor

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTheSchedulerIsDeadForBothOrNone has gpuctl doctor and gpuctl why judge one lease.
func TestTheSchedulerIsDeadForBothOrNone(t *testing.T) {
	pod := fixture.Pod("p").GPUs(1).Obj()
	pod.Spec.SchedulerName, pod.Status.Phase = names.SchedulerName, corev1.PodPending
	for silent := time.Duration(0); silent < 15*time.Second; silent += 500 * time.Millisecond {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			facts := healthy()
			facts.Lease.Spec.RenewTime.Time = t0.Add(-silent)
			report := diagnosis.Diagnose(diagnosis.Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Status: inventory.StatusPending}}, Pods: []corev1.Pod{*pod}, Cluster: facts.Snapshot,
			})
			doctorSays, whySays := facts.scheduler().Status == Failed, report.Cause == diagnosis.SchedulerDown
			if doctorSays != whySays {
				t.Errorf("doctor says that the scheduler is dead: %v, why: %v", doctorSays, whySays)
			}
		})
	}
}
