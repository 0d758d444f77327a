package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestRestartLosesAndDoublesNoPod kills the scheduler in the middle of 500 pods and starts another.
func TestRestartLosesAndDoublesNoPod(t *testing.T) {
	e := newEnv(t)
	const nodes, gpus, pods = 64, 8, 500
	for i := range nodes {
		e.createNodes(fixture.Node(fmt.Sprintf("node-%d", i)).Pool("restart").GPUs(gpus, "A100-80G").Obj())
	}
	check := e.record()
	for i := range pods {
		e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(1).Pool("restart").Obj())
		if i == pods/2 {
			e.waitAllBound(1)
			endScheduler(t, (*sandbox.Process).Kill)
		}
	}
	if bound := e.countBound(); bound == 0 || bound == pods {
		t.Fatalf("%d of %d pods were bound when the scheduler was killed, so the test would prove nothing", bound, pods)
	}
	restartScheduler(t, sandbox.SchedulerOptions{})
	e.waitAllBound(pods)
	if seen := len(check().Bindings()); seen != pods {
		t.Errorf("%d pods were bound, want %d", seen, pods)
	}
}

func (e *env) countBound() int {
	e.Helper()
	list, err := e.client.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		e.Fatal(err)
	}
	return len(list.Items)
}

// endScheduler stops or kills the package's scheduler, after a look at what it counted.
func endScheduler(t *testing.T, end func(*sandbox.Process) error) {
	t.Helper()
	if err := checkWakeUps(); err != nil {
		t.Error(err)
	}
	if err := end(scheduler); err != nil {
		t.Fatal(err)
	}
}

// restartScheduler replaces the package's scheduler, which must have ended.
func restartScheduler(t *testing.T, options sandbox.SchedulerOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if scheduler, err = cluster.StartScheduler(ctx, options); err != nil {
		t.Fatal(err)
	}
}

// TestBadConfigurationStopsTheScheduler asks for the path and the value of what is wrong.
func TestBadConfigurationStopsTheScheduler(t *testing.T) {
	const profile = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: gpu-scheduler
  plugins:
    multiPoint:
      enabled: [{name: GPUFilter}, {name: GPUScore}]
  pluginConfig:
`
	tests := map[string]struct {
		args string
		want []string
	}{
		"an unknown field": {
			args: "  - {name: GPUFilter, args: {gpuTypess: [A100-80G]}}",
			want: []string{"gpuTypess"},
		},
		"a weight above 100": {
			args: "  - {name: GPUScore, args: {weights: {utilization: 140}}}",
			want: []string{"weights.utilization", "140"},
		},
		"a negative weight": {
			args: "  - {name: GPUScore, args: {weights: {topology: -1}}}",
			want: []string{"weights.topology", "-1"},
		},
		"an unknown strategy": {
			args: "  - {name: GPUScore, args: {strategy: Stack}}",
			want: []string{"strategy", "Stack", "Pack"},
		},
		"an empty GPU type": {
			args: `  - {name: GPUFilter, args: {gpuTypes: ["A100-80G", ""]}}`,
			want: []string{"gpuTypes[1]"},
		},
		"a value of the wrong type": {
			args: "  - {name: GPUScore, args: {weights: {utilization: much}}}",
			want: []string{"utilization"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(profile+tc.args+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: "misconfigured", ConfigPath: path})
			if err == nil {
				t.Fatal("the scheduler started")
			}
			if strings.Contains(err.Error(), "goroutine ") {
				t.Errorf("the scheduler panicked:\n%v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the scheduler says\n%v\nwant it to name %q", err, want)
				}
			}
		})
	}
}

// TestClassicConfigurationPlacesPods runs a scheduler with the configuration that SREs know, as it is.
func TestClassicConfigurationPlacesPods(t *testing.T) {
	e := newEnv(t)
	takeFenceAway(t, e.client) // it knows no leader election
	endScheduler(t, (*sandbox.Process).Stop)
	restartScheduler(t, sandbox.SchedulerOptions{ConfigPath: filepath.Join("testdata", "classic-config.yaml")})
	defer func() {
		endScheduler(t, (*sandbox.Process).Stop)
		restartScheduler(t, sandbox.SchedulerOptions{})
	}()
	const t4, v100, unserved = "nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-k80"
	e.createNodes(
		fixture.Node("t4").Label(names.LabelAccelerator, t4).GPUs(8, "").Obj(),
		fixture.Node("v100-a").Label(names.LabelAccelerator, v100).GPUs(8, "").Obj(),
		fixture.Node("v100-b").Label(names.LabelAccelerator, v100).GPUs(8, "").Obj(),
		fixture.Node("k80").Label(names.LabelAccelerator, unserved).GPUs(8, "").Obj())
	asks := func(name string, gpus int64) *corev1.Pod {
		return fixture.Pod(name).GPUs(gpus).Select(names.LabelAccelerator, v100).Obj()
	}
	nodes := e.runOneByOne(asks("a", 2), asks("b", 4), asks("c", 4), asks("d", 2))
	if first := nodes[0]; first != "v100-a" && first != "v100-b" {
		t.Errorf("a pod for a V100 went to node %s", first)
	}
	// The default scorers alone would send b to the emptier node, and leave no room for c anywhere but there.
	if nodes[1] != nodes[0] || nodes[2] == nodes[0] || nodes[3] != nodes[0] {
		t.Errorf("pods of 2, 4, 4 and 2 GPUs went to %v, want the first, second and last on one node", nodes)
	}
	for name, pod := range map[string]*fixture.PodBuilder{
		"a type that the profile does not serve": fixture.Pod("k80").GPUs(1).Select(names.LabelAccelerator, unserved),
		"more GPUs than are left of the type":    fixture.Pod("many").GPUs(5).Select(names.LabelAccelerator, v100),
	} {
		e.createPods(pod.Obj())
		t.Log(name, e.waitUnschedulable(pod.Obj().Name))
	}
}
