package gpuscore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\n"

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReloaderFollowsAFile walks one reloader through the life of a file.
func TestReloaderFollowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	args := &configv1.GPUScoreArgs{}
	args.SetDefaults()
	var current atomic.Pointer[policy]
	current.Store(newPolicy(args, 0))
	var reported []string
	r := &reloader{path: path, policy: &current, report: func(_ context.Context, o reloadOutcome) {
		if o.err != nil {
			reported = append(reported, o.err.Error())
		} else {
			reported = append(reported, "in effect")
		}
	}}
	steps := []struct {
		name       string
		change     func()
		utilWeight int64
		generation int64
		report     string // "" for none
	}{
		{"no file, and the arguments apply", func() {}, 40, 0, ""},
		{"a file comes", func() { write(t, path, header+"weights: {utilization: 50}\n") }, 50, 1, "in effect"},
		{"nothing changed", func() {}, 50, 1, ""},
		{"the file changes", func() { write(t, path, header+"weights: {utilization: 60}\n") }, 60, 2, "in effect"},
		{"a bad value", func() { write(t, path, header+"weights: {utilization: 101}\n") }, 60, 2, "weights.utilization: Invalid value: 101"},
		{"it is reported once", func() {}, 60, 2, ""},
		{"another mistake", func() { write(t, path, header+"weight: {}\n") }, 60, 2, `unknown field "weight"`},
		{"the file goes, and the last good one stays", func() { _ = os.Remove(path) }, 60, 2, "no such file"},
		{"and stays away", func() {}, 60, 2, ""},
		{"a folder in its place", func() { _ = os.Mkdir(path, 0o700) }, 60, 2, "is a directory"},
		{"the good file comes back", func() {
			_ = os.Remove(path)
			write(t, path, header+"weights: {utilization: 60}\n")
		}, 60, 3, "in effect"},
	}
	for _, step := range steps {
		reported = nil
		step.change()
		r.reloadIfChanged(t.Context())
		if got := current.Load(); got.weights.utilization != step.utilWeight || got.generation != step.generation {
			t.Errorf("%s: weight %d in generation %d, want %d in %d",
				step.name, got.weights.utilization, got.generation, step.utilWeight, step.generation)
		}
		all := strings.Join(reported, "\n")
		if (step.report == "") != (all == "") || !strings.Contains(all, step.report) {
			t.Errorf("%s: reported %q, want %q", step.name, all, step.report)
		}
	}
}

// TestReloaderFollowsAMountedConfigMap swaps files as the kubelet does: a link to a folder is replaced.
func TestReloaderFollowsAMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	mount := func(version, content string) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "policy.yaml"), content)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..1", header+"strategy: Spread\n")
	path := filepath.Join(dir, "policy.yaml")
	if err := os.Symlink(filepath.Join("..data", "policy.yaml"), path); err != nil {
		t.Fatal(err)
	}
	plugin := build(t, &configv1.GPUScoreArgs{PolicyFile: path})
	if got := plugin.policy.Load().strategy; got != configv1.Spread {
		t.Fatalf("strategy %s when the plugin starts, want that of the file", got)
	}
	mount("..2", header+"strategy: TargetBand\n")
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Second, true, func(context.Context) (bool, error) {
		return plugin.policy.Load().strategy == configv1.TargetBandStrategy, nil
	})
	if err != nil {
		t.Errorf("the new policy is not in effect after 2 s: %v", err)
	}
}

func TestReportsAreEvents(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithEventRecorder(recorder))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	r := &reloader{path: path, policy: &build(t, &configv1.GPUScoreArgs{}).policy, report: newReporter(handle).reportReload}
	write(t, path, header+"strategy: "+strings.Repeat("x", 1000)+"\n")
	r.reloadIfChanged(t.Context())
	write(t, path, header)
	r.reloadIfChanged(t.Context())
	refused, inEffect := <-recorder.Events, <-recorder.Events
	if want := "Warning ScoringPolicyRefused " + path; !strings.HasPrefix(refused, want) || !strings.HasSuffix(refused, "...") {
		t.Errorf("event %q, want %q with the reason, shortened", refused, want)
	}
	want := "Normal ScoringPolicyInEffect " + path + " is in effect as generation 1 of this process"
	if diff := cmp.Diff(want, inEffect); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestABadPolicyDoesNotStopASchedulerThatStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "strategy: Pack\n")
	plugin := build(t, &configv1.GPUScoreArgs{Strategy: configv1.Spread, PolicyFile: path})
	if got := plugin.policy.Load().strategy; got != configv1.Spread {
		t.Errorf("strategy %s, want that of the arguments", got)
	}
}

// TestACycleHasOnePolicy changes the policy between PreScore and Score.
func TestACycleHasOnePolicy(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{Weights: only("utilization")})
	pod := asking(names.ResourceGPU, "1").Obj()
	node := info(offering(names.ResourceGPU, "4").Obj())
	cycle := newCycle(t, plugin, pod, node)
	args := &configv1.GPUScoreArgs{Weights: only("utilization"), Strategy: configv1.Spread}
	args.SetDefaults()
	before, _ := plugin.SignPod(t.Context(), pod)
	plugin.policy.Store(newPolicy(args, 1))
	if got, _ := plugin.Score(t.Context(), cycle, pod, node); got != 25 {
		t.Errorf("score %d in the cycle that began before the change, want the 25 of Pack", got)
	}
	if got := score(t, plugin, pod, node); got != 75 {
		t.Errorf("score %d in the next cycle, want the 75 of Spread", got)
	}
	if after, _ := plugin.SignPod(t.Context(), pod); cmp.Equal(before, after) {
		t.Error("pods have one signature under two policies, so a batch would go on with the old one")
	}
}

func TestReplicasAreNotSigned(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{})
	replica := func(jobType, job string) *corev1.Pod {
		pod := asking(names.ResourceGPU, "1").Label(names.LabelJobType, jobType)
		if job != "" {
			pod.Label(names.LabelJob, job)
		}
		return pod.Obj()
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"replicas that are spread depend on each other": {replica(configv1.JobTypeInference, "chat"), false},
		"an inference pod of no job stands alone":       {replica(configv1.JobTypeInference, ""), true},
		"members of a training job are packed":          {replica(configv1.JobTypeTraining, "bert"), true},
		"without GPUs nothing is spread":                {st.MakePod().Label(names.LabelJobType, configv1.JobTypeInference).Label(names.LabelJob, "web").Obj(), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, status := plugin.SignPod(t.Context(), tc.pod); status.IsSuccess() != tc.want {
				t.Errorf("SignPod: %v, want signed: %t", status, tc.want)
			}
		})
	}
}
