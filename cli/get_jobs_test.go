package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestAnArrayFitsATerminal(t *testing.T) {
	job := someJobs()[0]
	job.Name, job.Kind, job.Pool = "hyperparameter-sweep-7", "training", "training-pool"
	job.Nodes = []string{"train-a100-fabric-01", "train-a100-fabric-02"}
	job.Array = &inventory.Array{Tasks: 100, AtOnce: 20, Succeeded: 37, Failed: 2}
	failed := job
	failed.Status, failed.Trouble = inventory.StatusFailed, inventory.Trouble{Reason: "FailedIndexes", Message: "Job has failed indexes"}
	var out bytes.Buffer
	if err := writeTable(&out, []inventory.Job{job, failed}, jobColumns(now, false), tableStyle{width: 100}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, want := range []string{"37 of 100 done, 2 failed\n    train-a100-fabric-01 +1\n", "37 of 100 done, 2 failed\n    FailedIndexes: Job has failed indexes\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}

func TestWhereAnArrayRuns(t *testing.T) {
	job := inventory.Job{Name: "fa", Status: inventory.StatusRunning, Array: &inventory.Array{Tasks: 4, Succeeded: 2, Failed: 1}}
	if got := runningText(job).String(); got != "fa runs, 2 of 4 done, 1 failed" {
		t.Errorf("between two tasks it says %q", got)
	}
	job.Nodes, job.Array, job.Ready, job.Desired = []string{"a", "b"}, nil, 1, 2
	if got := runningText(job).String(); got != "fa runs on a, b, 1 of 2 pods ready" {
		t.Errorf("it says %q", got)
	}
}

func TestPodsOfJobsFitATerminal(t *testing.T) {
	pod := jobPod{Job: "qwen2-7b-llamafactory", Kind: "training", Pod: inventory.Pod{
		Name: "qwen2-7b-llamafactory-0-x7k2p", Phase: "Running", Node: "train-a100-02", IP: "10.244.113.201", Created: now,
	}}
	var out bytes.Buffer
	if err := writeTable(&out, []jobPod{pod}, jobPodColumns(now, false), tableStyle{width: 100}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 || strings.Contains(line, "10.244") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func TestForHowLongAJobHasRun(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	later := func(d time.Duration) *time.Time { return ptr.To(start.Add(d)) }
	tests := map[string]struct {
		job  inventory.Job
		now  time.Time
		want string
	}{
		"it waits":           {inventory.Job{}, *later(time.Hour), ""},
		"it runs":            {inventory.Job{Started: &start}, *later(time.Hour), "60m"},
		"it has ended":       {inventory.Job{Started: &start, Finished: later(2 * time.Minute)}, *later(time.Hour), "2m"},
		"it is watched":      {inventory.Job{Started: &start}, time.Time{}, ""},
		"it ends as watched": {inventory.Job{Started: &start, Finished: later(2 * time.Minute)}, time.Time{}, "2m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := runDuration(tc.job, tc.now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
