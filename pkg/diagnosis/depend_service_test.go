package diagnosis

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestAJobThatWaitsForAService is not told to wait: a service never ends.
func TestAJobThatWaitsForAService(t *testing.T) {
	f := Facts{Job: inventory.JobDetail{Job: inventory.Job{Name: "after", Namespace: "team", Status: inventory.StatusPending,
		WaitsFor: []string{"chat"}, Trouble: inventory.Trouble{Reason: inventory.ReasonWaitsForJobs}}}}
	chat := inventory.Job{Name: "chat", Namespace: "team", Kind: string(workload.KindInference), Status: inventory.StatusRunning}
	chat.Object.Kind = "Deployment"
	f.Others = []inventory.Job{chat}
	found := Diagnose(f).Findings[0]
	for _, step := range found.Steps {
		if step.Action == reason.Wait {
			t.Errorf("it says to %q", step.Text)
		}
	}
	if len(found.Steps) != 2 || !strings.HasSuffix(found.Steps[0].Text, "gpuctl delete after -n team") || found.Steps[1].Command != "gpuctl resume after -n team" {
		t.Errorf("the steps are %+v, want to delete this job, or to let it start", found.Steps)
	}
	f.Others[0].Object.Kind = kindJob
	if first := Diagnose(f).Findings[0].Steps[0]; first.Action != reason.Wait {
		t.Errorf("of a job that ends it says %q, want to wait", first.Text)
	}
}
