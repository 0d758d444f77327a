package whatif

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

func member(job, name, node string) corev1.Pod {
	pod := fixture.Pod(name).GPUs(8).Label(names.LabelJob, job).Label(names.LabelJobType, "training").Obj()
	pod.Namespace, pod.Spec.NodeName = "team", node
	if node == "" {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 node(s) have too few free GPUs.",
		}}
	}
	return *pod
}

// TestNewAnswer has a job that fits beside one of which a pod does not.
func TestNewAnswer(t *testing.T) {
	node := fixture.Node("n").GPUs(8, "A100-80G").Obj()
	cluster := &snapshot.Snapshot{Nodes: []corev1.Node{*node}, Now: time.Unix(0, 0)}
	outcome := &Outcome{
		Pods:    []corev1.Pod{member("fits", "fits-0", "n"), member("half", "half-0", "n"), member("half", "half-1", "")},
		Evicted: []string{"team/low-0"},
		Records: []explain.Record{{Namespace: "team", Name: "half-1"}, {Namespace: "other", Name: "fits-0"}},
	}
	answer := NewAnswer(cluster, outcome, PolicyShipped)
	got := []string{}
	for _, job := range answer.Jobs {
		got = append(got, job.Job, map[bool]string{true: "starts", false: "waits"}[job.Starts], string(job.Status))
		if job.Starts != (len(job.Findings) == 0) || len(job.Placements) != 1 {
			t.Errorf("of job %s, which starts %v, it says %+v", job.Job, job.Starts, job.Report)
		}
	}
	if diff := cmp.Diff([]string{"fits", "starts", "Pending", "half", "waits", "Pending"}, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if len(answer.Jobs[0].Records) != 0 || len(answer.Jobs[1].Records) != 1 || answer.Policy != PolicyShipped || len(answer.Evicted) != 1 {
		t.Errorf("answer %+v", answer)
	}
}

// TestPodsOfNodesThatAreGone hold nothing: a simulation would refuse them.
func TestPodsOfNodesThatAreGone(t *testing.T) {
	nodes := []corev1.Node{*fixture.Node("n").Obj()}
	got := podsOnNodes(nodes, []corev1.Pod{member("a", "a-0", "n"), member("b", "b-0", "gone")})
	if len(got) != 1 || got[0].Name != "a-0" {
		t.Errorf("kept %v", got)
	}
}

// TestAsk has a script stand in for the scheduler.
func TestAsk(t *testing.T) {
	tests := map[string]struct{ script, want string }{
		"it answers":              {`cat >/dev/null; echo '{"pods":[],"records":[]}'`, ""},
		"it fails, and says why":  {"echo 'error: no nodes' >&2; exit 1", "error: no nodes"},
		"it says what is no JSON": {"cat >/dev/null; echo hello", "reading what"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gpu-scheduler")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700); err != nil { //nolint:gosec // it has to run
				t.Fatal(err)
			}
			_, err := RunSimulator(t.Context(), path, &Question{})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindSimulator(); !errors.Is(err, ErrNoSimulator) {
		t.Errorf("error %v, want %v", err, ErrNoSimulator)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "gpu-scheduler")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it has to be found
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	if got, err := FindSimulator(); err != nil || got != path {
		t.Errorf("found %q, %v, want %q", got, err, path)
	}
}
