package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

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
	bindings := e.watchBindings()
	for i := range pods {
		e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(1).Pool("restart").Obj())
		if i == pods/2 {
			e.waitAllBound(1)
			if err := scheduler.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if bound := e.countBound(); bound == 0 || bound == pods {
		t.Fatalf("%d of %d pods were bound when the scheduler was killed, so the test would prove nothing", bound, pods)
	}
	restartScheduler(t, sandbox.SchedulerOptions{})

	used := map[string]int{}
	for _, pod := range e.waitAllBound(pods) {
		used[pod.Spec.NodeName]++
	}
	for node, count := range used {
		if count > gpus {
			t.Errorf("%d GPUs of %s are given away, it has %d", count, node, gpus)
		}
	}
	for pod, nodes := range bindings() {
		if len(nodes) > 1 {
			t.Errorf("%s was on nodes %v", pod, nodes)
		}
	}
}

// watchBindings records from now on which nodes each pod is on. The function it returns ends the watch.
func (e *env) watchBindings() func() map[string][]string {
	e.Helper()
	watcher, err := e.client.CoreV1().Pods(e.namespace).Watch(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	nodes := map[string][]string{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || pod.Spec.NodeName == "" {
				continue
			}
			seen := nodes[pod.Name]
			if len(seen) == 0 || seen[len(seen)-1] != pod.Spec.NodeName {
				nodes[pod.Name] = append(seen, pod.Spec.NodeName)
			}
		}
	}()
	return func() map[string][]string {
		watcher.Stop()
		<-done
		return nodes
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
	if err := scheduler.Stop(); err != nil {
		t.Fatal(err)
	}
	restartScheduler(t, sandbox.SchedulerOptions{ConfigPath: filepath.Join("testdata", "classic-config.yaml")})
	defer func() {
		if err := scheduler.Stop(); err != nil {
			t.Error(err)
		}
		restartScheduler(t, sandbox.SchedulerOptions{})
	}()
	e.createNodes(
		fixture.Node("t4").Label(names.LabelAccelerator, "nvidia-tesla-t4").GPUs(8, "").Obj(),
		fixture.Node("v100").Label(names.LabelAccelerator, "nvidia-tesla-v100").GPUs(8, "").Obj())
	for _, node := range e.runOneByOne(
		fixture.Pod("a").GPUs(4).Select(names.LabelAccelerator, "nvidia-tesla-v100").Obj(),
		fixture.Pod("b").GPUs(4).Select(names.LabelAccelerator, "nvidia-tesla-v100").Obj()) {
		if node != "v100" {
			t.Errorf("a pod for a V100 went to node %s", node)
		}
	}
}

// TestMetrics reads the scheduler's own endpoint.
func TestMetrics(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("node").Pool("metrics").GPUs(8, "A100-80G").Obj())
	e.runOneByOne(fixture.Pod("pod").GPUs(1).Pool("metrics").Obj())
	metrics := scrape(t)
	if !strings.Contains(metrics, "\ngpu_scheduler_") {
		t.Error("no metric of ours is on the scheduler's /metrics")
	}
}

// scrape reads /metrics with the administrator's client certificate.
func scrape(t *testing.T) string {
	t.Helper()
	config := cluster.RESTConfig()
	config.CAData, config.CAFile = nil, ""
	config.Insecure = true // the scheduler serves a certificate of its own making
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 10 * time.Second
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", scheduler.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("reading /metrics: %s\n%s", response.Status, body)
	}
	return string(body)
}
