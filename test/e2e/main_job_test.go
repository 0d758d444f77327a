// Package e2e runs the programs as a user does, on a whole sandbox: control plane, controllers, simulated nodes and
// the scheduler of the manifests.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// root is the repository, seen from this folder.
const root = "../.."

var cluster *sandbox.Sandbox

func TestMain(m *testing.M) {
	if _, err := os.Stat(gpuctlPath()); err != nil {
		fmt.Fprintf(os.Stderr, "missing bin/gpuctl: run %q in the repository\n", "make build")
		os.Exit(1)
	}
	os.Exit(sandboxtest.Main(m, sandbox.FullOptions(), func(ctx context.Context, s *sandbox.Sandbox) error {
		cluster = s
		if err := cluster.InstallScheduler(ctx); err != nil {
			return err
		}
		_, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
		return err
	}))
}

func gpuctlPath() string { return filepath.Join(root, "bin", "gpuctl") }

// gpuctl runs the program and returns what it printed and its exit code.
func gpuctl(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), gpuctlPath(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// must runs gpuctl, which has to succeed, and returns its standard output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := gpuctl(t, args...)
	if code != 0 {
		t.Fatalf("gpuctl %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// list reads what gpuctl prints as JSON.
func list[T any](t *testing.T, args ...string) []T {
	t.Helper()
	var list struct {
		Items []T `json:"items"`
	}
	if err := json.Unmarshal([]byte(must(t, append(args, "-o", "json")...)), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestDemoJobs submits the jobs of the demo and follows them from creation to the end.
func TestDemoJobs(t *testing.T) {
	must(t, "create", "-f", filepath.Join(root, "examples", "demo"))
	want := map[string]struct {
		pool, gpuType string
		gpus          int64
		pods          int32
	}{
		"qwen2-7b-llamafactory-sft": {pool: "training-pool", gpuType: "A100-100G", gpus: 4, pods: 1},
		"llama3-8b-inference":       {pool: "inference-pool", gpuType: "A100-100G", gpus: 2, pods: 2},
		"data-prep-notebook":        {pool: "dev-pool", gpuType: "a10-24g", gpus: 1, pods: 1},
	}
	jobs := waitJobs(t, func(jobs map[string]inventory.Job) bool {
		for name, want := range want {
			if jobs[name].Status != inventory.StatusRunning || jobs[name].Ready != want.pods {
				return false
			}
		}
		return jobs["too-big"].Message != ""
	})

	nodes := map[string]inventory.Node{}
	for _, node := range list[inventory.Node](t, "get", "nodes") {
		nodes[node.Name] = node
	}
	for name, want := range want {
		job := jobs[name]
		if job.GPUs != want.gpus || job.Ready != want.pods || len(job.Nodes) == 0 {
			t.Errorf("%s has %d GPUs, %d pods ready on nodes %v, want %d GPUs and %d pods",
				name, job.GPUs, job.Ready, job.Nodes, want.gpus, want.pods)
		}
		for _, node := range job.Nodes {
			if got := nodes[node]; got.Pool != want.pool || got.GPUType != want.gpuType {
				t.Errorf("%s is on %s of pool %s and type %s, want pool %s and type %s",
					name, node, got.Pool, got.GPUType, want.pool, want.gpuType)
			}
		}
		if logs := must(t, "logs", name); logs == "" {
			t.Errorf("the log of %s is empty", name)
		}
	}
	if got := jobs["too-big"]; got.Status != inventory.StatusPending || !strings.Contains(got.Message, "fewer GPUs than the pod asks for") {
		t.Errorf("the job of 16 GPUs is %s: %q", got.Status, got.Message)
	}

	must(t, "delete", "-f", filepath.Join(root, "examples", "demo"))
	if left := list[inventory.Job](t, "get", "jobs"); len(left) != 0 {
		t.Errorf("%d jobs are left after their deletion", len(left))
	}
}

// waitJobs waits until the jobs are as done says, and returns them by name.
func waitJobs(t *testing.T, done func(map[string]inventory.Job) bool) map[string]inventory.Job {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		jobs := map[string]inventory.Job{}
		for _, job := range list[inventory.Job](t, "get", "jobs") {
			jobs[job.Name] = job
		}
		if done(jobs) {
			return jobs
		}
		if time.Now().After(deadline) {
			t.Fatalf("the jobs did not get there:\n%s", must(t, "get", "jobs", "-o", "wide"))
		}
	}
}

// TestExamplesAreAccepted has the API server check every example as if it were created.
func TestExamplesAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("finding examples: %d files, %v", len(files), err)
	}
	for _, namespace := range []string{"nlp-team", "serving"} { // that examples name
		if _, err := cluster.RunKubectl(t.Context(), "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if filepath.Base(file) == "pool-every-field.yaml" { // it is for nodes of another GPU type, and of a region that none here is in
				if _, stderr, code := gpuctl(t, "create", "--dry-run=server", "--force", "--overwrite", "-f", file); code == 0 || !strings.Contains(stderr, "must be one of ap-singapore") {
					t.Errorf("it is not refused for its region: exit code %d\n%s", code, stderr)
				}
				return
			}
			if out := must(t, "create", "--dry-run=server", "--force", "-f", file); out == "" {
				t.Error("nothing would be created")
			}
		})
	}
	if left := list[inventory.Job](t, "get", "jobs"); len(left) != 0 {
		t.Errorf("dry runs left %d jobs", len(left))
	}
}

// TestSamplesRun applies the samples of the manifests and waits until all their pods run.
func TestSamplesRun(t *testing.T) {
	if err := cluster.ApplyManifests(t.Context(), manifests.FS, "samples"); err != nil {
		t.Fatal(err)
	}
	_, err := cluster.RunKubectl(t.Context(), "wait", "--for=condition=Ready", "--timeout=60s",
		"pod/sample-of-a-type", "pod/sample-of-several-types")
	if err != nil {
		t.Error(err)
	}
	waitJobs(t, func(jobs map[string]inventory.Job) bool {
		return jobs["sample-training"].Status == inventory.StatusRunning
	})
	must(t, "delete", "sample-training")
}
