package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

const lifecycleYAML = `kind: training
job: {name: lifecycle, priority: low}
environment: {image: busybox, command: ["sleep", "3600"]}
resources: {pool: dev-pool, gpu: 1, cpu: 1, memory: 1Gi}
`

// TestLifecycle takes a job through all that can be done to it, with the real Job controller and scheduler.
func TestLifecycle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(lifecycleYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "create", "-f", file)
	steps := []struct {
		args []string
		want inventory.Status
		pods int
	}{
		{[]string{"apply", "-f", file}, inventory.StatusRunning, 1},
		{[]string{"pause", "lifecycle"}, inventory.StatusSuspended, 0},
		{[]string{"set", "priority", "lifecycle", "medium"}, inventory.StatusSuspended, 0},
		{[]string{"resume", "lifecycle"}, inventory.StatusRunning, 1},
		{[]string{"set", "priority", "lifecycle", "high", "--restart"}, inventory.StatusRunning, 1},
		{[]string{"cancel", "lifecycle"}, inventory.StatusCancelled, 0},
		{[]string{"retry", "lifecycle"}, inventory.StatusRunning, 1},
		{[]string{"pause", "lifecycle"}, inventory.StatusSuspended, 0},
		{[]string{"cancel", "lifecycle"}, inventory.StatusCancelled, 0},
	}
	for _, step := range steps {
		out := must(t, step.args...)
		t.Log(strings.TrimSpace(out))
		waitJobs(t, func(jobs map[string]inventory.Job) bool {
			job := jobs["lifecycle"]
			alive := 0
			for _, pod := range job.Pods {
				if pod.Phase == "Running" {
					alive++
				}
			}
			return job.Status == step.want && alive == step.pods
		})
	}
	if priority := waitJobs(t, func(map[string]inventory.Job) bool { return true })["lifecycle"].Priority; priority != "high" {
		t.Errorf("the priority is %q, want high", priority)
	}
	must(t, "delete", "lifecycle")
}
