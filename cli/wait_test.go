package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestGoals(t *testing.T) {
	type answer struct {
		Reached bool
		Code    int
	}
	training := func(status inventory.Status, ready int32) inventory.Job {
		return inventory.Job{Name: "sft", Status: status, Ready: ready, Desired: 2, Object: inventory.ObjectRef{Kind: "Job"}}
	}
	sweep := training(inventory.StatusRunning, 1)
	sweep.Array = &inventory.Array{Tasks: 10, AtOnce: 2, Running: 1, Waiting: 1}
	tests := map[string]struct {
		goal goal
		job  inventory.Job
		want answer
	}{
		"one of two pods runs, that is running":   {goalRunning, training(inventory.StatusDegraded, 1), answer{true, 0}},
		"one of two pods runs, that is not ready": {goalReady, training(inventory.StatusDegraded, 1), answer{false, 0}},
		"a fast job was ready before anyone saw":  {goalReady, training(inventory.StatusSucceeded, 2), answer{true, 0}},
		"a failed job will not be ready":          {goalReady, training(inventory.StatusFailed, 0), answer{false, 100}},
		"an array runs while tasks of it wait":    {goalRunning, sweep, answer{true, 0}},
		"and is not ready then":                   {goalReady, sweep, answer{false, 0}},
		"it has succeeded":                        {goalDone, training(inventory.StatusSucceeded, 2), answer{true, 0}},
		"it has failed, and is done":              {goalDone, training(inventory.StatusFailed, 0), answer{true, 100}},
		"it goes on":                              {goalSucceeded, training(inventory.StatusRunning, 2), answer{false, 0}},
		"it crashes and is tried again":           {goalDone, training(inventory.StatusFailing, 0), answer{false, 0}},
		"it has failed as expected":               {goalFailed, training(inventory.StatusFailed, 0), answer{true, 0}},
		"it has succeeded, so it cannot fail":     {goalFailed, training(inventory.StatusSucceeded, 0), answer{false, 1}},
		"a service is never done": {
			goalDone, inventory.Job{Name: "chat", Kind: "inference", Status: inventory.StatusRunning, Object: inventory.ObjectRef{Kind: "Deployment"}},
			answer{false, 2},
		},
		"a job that is there is not gone": {goalDeleted, training(inventory.StatusTerminating, 0), answer{false, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reached, err := tc.goal.isReachedBy(tc.job)
			if diff := cmp.Diff(tc.want, answer{reached, exitCode(err)}); diff != "" {
				t.Errorf("(-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

func TestWaitingForSeveralJobs(t *testing.T) {
	job := func(name string, status inventory.Status) inventory.Job {
		return inventory.Job{Name: name, Namespace: "team", Status: status, Object: inventory.ObjectRef{Kind: "Job"}}
	}
	var told []string
	w := &waiter{namespace: "team", names: []string{"a", "b"}, goal: goalDone, seen: map[string]bool{}, done: map[string]bool{}}
	w.onReached = func(name, outcome string) { told = append(told, name+" "+outcome) }
	steps := []struct {
		jobs     []inventory.Job
		finished bool
	}{
		{[]inventory.Job{job("a", inventory.StatusFailed), job("b", inventory.StatusRunning)}, false},
		{[]inventory.Job{job("b", inventory.StatusRunning)}, false}, // a is done, it may be deleted
		{[]inventory.Job{job("b", inventory.StatusSucceeded)}, true},
	}
	for i, step := range steps {
		if finished, err := w.checkJobs(step.jobs); finished != step.finished || err != nil {
			t.Errorf("step %d: finished %t, %v", i, finished, err)
		}
	}
	if exitCode(w.failure) != exitJobFailed {
		t.Errorf("the failure of a is %v", w.failure)
	}
	if diff := cmp.Diff([]string{"a failed", "b succeeded"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	w = &waiter{namespace: "team", names: []string{"a"}, goal: goalReady, seen: map[string]bool{}, done: map[string]bool{}}
	if _, err := w.checkJobs(nil); exitCode(err) != exitNotFound {
		t.Errorf("a job that was never there: %v", err)
	}
	_, _ = w.checkJobs([]inventory.Job{job("a", inventory.StatusPending)})
	if _, err := w.checkJobs(nil); exitCode(err) != exitNotFinished {
		t.Errorf("a job that was deleted meanwhile: %v", err)
	}
}

func TestAJobThatIsNamedTwiceIsOneJob(t *testing.T) {
	w := &waiter{namespace: "team", names: jobNames([]string{"a", "job/a", "training/a"}), goal: goalDone, seen: map[string]bool{}, done: map[string]bool{}}
	w.onReached = func(string, string) {}
	finished, err := w.checkJobs([]inventory.Job{{Name: "a", Status: inventory.StatusSucceeded, Object: inventory.ObjectRef{Kind: "Job"}}})
	if !finished || err != nil {
		t.Errorf("finished %t, %v", finished, err)
	}
	if diff := cmp.Diff([]int{3, 1, 2}, removeDuplicates([]int{3, 1, 3, 2, 1})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALateWaitLeavesTheReason(t *testing.T) {
	streams, _, stderr := TestIOStreams("")
	streams.ErrIsTerminal, streams.ErrWidth = true, 20
	line := newStatusLine(streams)
	line.setText("big is Pending: no node of the pool has so many GPUs")
	line.endKeepingText()
	line.endLine()
	const want = "big is Pending: no node of the pool has so many GPUs\n"
	if got := stderr.String(); !strings.HasSuffix(got, clearRow+want) {
		t.Errorf("the terminal shows %q, want %q at the end", got, want)
	}
	w := &waiter{namespace: "team", names: []string{"big"}, goal: goalDone, timeout: time.Minute}
	if got, want := w.timeoutText().String(), "job big is not done\nSee: gpuctl why big -n team"; got != want {
		t.Errorf("late is %q, want %q", got, want)
	}
}
