package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

const jobYAML = `kind: training
version: v0.1
job:
  name: %s
environment:
  image: %s
  command: ["/gpu-probe", "report", "--for=10m", "--stopped=143"]
resources:
  pool: %s
  gpu: %d
  gpu-type: FAKE-40G
  cpu: 10m
  memory: 64Mi
`

// gpuctl runs the program, which has to succeed, and returns what it printed.
func gpuctl(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "gpuctl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("gpuctl %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// submit creates a job of gpuctl that asks for so many cards, and for more in lines of its resources.
func submit(t *testing.T, name string, cards int, more ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	text := fmt.Sprintf(jobYAML, name, realnode.ProbeImage, pool, cards) + strings.Join(more, "")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gpuctl(t, "create", "-f", path)
	t.Cleanup(func() {
		command := exec.Command(filepath.Join("..", "..", "bin", "gpuctl"), "delete", name)
		command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("gpuctl delete: %v: %s", err, out)
		}
		for _, pod := range podsOf(context.WithoutCancel(t.Context()), name) {
			if err := remove(context.WithoutCancel(t.Context()), pod, false); err != nil {
				t.Error(err)
			}
		}
	})
}

// described is the job as gpuctl describes it.
func described(t *testing.T, name string) inventory.Job {
	t.Helper()
	var job inventory.Job
	if err := json.Unmarshal([]byte(gpuctl(t, "describe", name, "-o", "json")), &job); err != nil {
		t.Fatal(err)
	}
	return job
}

// TestAJobPrintsTheCardsThatDescribeShows goes the way of a user, from a file to a program that sees its cards.
func TestAJobPrintsTheCardsThatDescribeShows(t *testing.T) {
	needNode(t)
	submit(t, "user", 3)
	var printed probe.Report
	eventually(t, "the job to print its cards", func(ctx context.Context) bool {
		names := podsOf(ctx, "user")
		return len(names) == 1 && isRunning(ctx, names[0]) && json.Unmarshal([]byte(gpuctl(t, "logs", "user")), &printed) == nil
	})
	job := described(t, "user")
	if len(job.Pods) != 1 {
		t.Fatalf("got pods %+v", job.Pods)
	}
	assigned, err := gpu.ParseAssignment(job.Pods[0].Devices)
	if err != nil {
		t.Fatal(err)
	}
	if len(assigned) != 1 {
		t.Fatalf("describe shows %+v, want one container", assigned)
	}
	for name, cards := range assigned {
		if len(cards) != 3 {
			t.Errorf("describe shows %d cards, want 3", len(cards))
		}
		for _, fault := range wrong(assigned, name, printed) {
			t.Error(fault)
		}
	}
}
