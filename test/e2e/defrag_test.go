package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// submit creates a job of some GPUs in the pool of the test.
func submit(t *testing.T, kind, name string, gpus int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	text := fmt.Sprintf("kind: %s\njob: {name: %s}\nenvironment: {image: busybox}\n"+
		"resources: {pool: frag, gpu: %d, cpu: 1, memory: 1Gi}\n", kind, name, gpus)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "create", "-f", path)
}

func runs(names ...string) func(map[string]inventory.Job) bool {
	return func(jobs map[string]inventory.Job) bool {
		for _, name := range names {
			if jobs[name].Status != inventory.StatusRunning {
				return false
			}
		}
		return true
	}
}

// TestDefragmentation has jobs end so that 8 GPUs are free on two nodes and not on one, and lets a job of 8 start by
// the one move that is enough.
func TestDefragmentation(t *testing.T) {
	err := cluster.CreateFleet(t.Context(), sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: "frag", Count: 2, Pool: "frag", GPUType: "A100-80G", GPUsPerNode: 8, GPUMemory: resource.MustParse("80Gi"),
		Interconnect: "nvlink", CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []struct {
		kind, name string
		gpus       int
	}{{"training", "five", 5}, {"training", "four", 4}, {"notebook", "three", 3}, {"training", "one", 1}} {
		submit(t, job.kind, job.name, job.gpus)
		waitJobs(t, runs(job.name))
	}
	must(t, "delete", "job", "five")
	submit(t, "training", "eight", 8)
	jobs := waitJobs(t, func(jobs map[string]inventory.Job) bool { return jobs["eight"].Message != "" })
	from, to := jobs["three"].Nodes[0], jobs["four"].Nodes[0]
	if from == to {
		t.Fatalf("the jobs of 3 and 4 GPUs are both on %s, which leaves nothing to defragment", from)
	}

	advice := must(t, "advise", "defrag", "--pool", "frag", "--min-run", "0s")
	for _, want := range []string{"training/eight", "waits for 8 GPUs: 1 move makes room on node " + from, "notebook", "--apply"} {
		if !strings.Contains(advice, want) {
			t.Errorf("the advice is\n%s\nwant it to say %q", advice, want)
		}
	}
	if got := waitJobs(t, runs("three", "four", "one"))["three"].Nodes[0]; got != from {
		t.Fatalf("the advice alone has moved a job from %s to %s", from, got)
	}
	must(t, "advise", "defrag", "--pool", "frag", "--min-run", "0s", "--apply", "--timeout", "1m")
	jobs = waitJobs(t, runs("eight", "four", "three", "one"))
	if jobs["eight"].Nodes[0] != from || jobs["three"].Nodes[0] != to {
		t.Errorf("the job of 8 GPUs is on %v and that of 3 on %v, want %s and %s", jobs["eight"].Nodes, jobs["three"].Nodes, from, to)
	}
	if advice = must(t, "advise", "defrag", "--pool", "frag"); !strings.Contains(advice, "No job waits") {
		t.Errorf("with all jobs running the advice is\n%s", advice)
	}
	must(t, "delete", "job", "eight", "four", "three", "one")
}
