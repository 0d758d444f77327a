package inventory

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func TestAJobThatWaitsForOthers(t *testing.T) {
	long := strings.Repeat("a,", 130_000) + "b"
	tests := map[string]struct {
		dependsOn, waitsFor, pausedAt string
		status                        Status
		waits                         int
		message                       string
	}{
		"for two":                      {"ok=a,b", "a,b", "", StatusPending, 2, "it starts when a and b have succeeded"},
		"for one twice":                {"any=a", "a,a", "", StatusPending, 1, "it starts when a has ended"},
		"it does not say how they end": {"", "a", "", StatusPending, 1, "it starts when a has succeeded"},
		"for more than is read": {"ok=" + long, long, "", StatusPending, 0,
			"nothing lets it start: annotation g8s.host/waits-for names more than 16 jobs, or one by a name that no job has"},
		"a user has paused it": {"ok=a", "a", "2026-11-01T12:00:00Z", StatusSuspended, 1, "the job is paused and holds no GPUs"},
		"for nobody":           {"ok=a", "", "", StatusSuspended, 0, "the job is paused and holds no GPUs"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := sweep(batchv1.JobStatus{})
			job.Spec.Suspend = ptr.To(true)
			job.Annotations = map[string]string{
				names.AnnotationDependsOn: tc.dependsOn, names.AnnotationWaitsFor: tc.waitsFor, names.AnnotationPausedAt: tc.pausedAt,
			}
			got := Build(&snapshot.Snapshot{Jobs: []batchv1.Job{job}}).Jobs[0]
			if got.Status != tc.status || got.Message != tc.message || len(got.WaitsFor) != tc.waits {
				t.Errorf("%s, %q, waits for %d jobs; want %s, %q, %d", got.Status, got.Message, len(got.WaitsFor), tc.status, tc.message, tc.waits)
			}
		})
	}
}
