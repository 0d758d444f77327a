package simulate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// TestJobsAreGangs has a job of 12 GPUs that waits for both of its nodes, and one that goes before it meanwhile.
func TestJobsAreGangs(t *testing.T) {
	arrivals := simulate.ArrivalsOfJobs([]*trace.Job{
		{ID: 0, GPUs: 8, Runtime: time.Hour},
		{ID: 1, GPUs: 12, Submit: time.Minute, Runtime: time.Hour},
		{ID: 2, GPUs: 4, Submit: 2 * time.Minute, Runtime: time.Minute},
	})
	result := run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(2, 8))}, arrivals)
	got := map[string]float64{}
	for _, decision := range result.Decisions {
		got[decision.Pod] = decision.At
	}
	want := map[string]float64{"trace/job-0-0": 0, "trace/job-1-0": 3600, "trace/job-1-1": 3600, "trace/job-2-0": 120}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	if result.Delay.Max != 3540 {
		t.Errorf("the longest wait is %v s, want 3540", result.Delay.Max)
	}
}
