package usage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// machinesOf asks an API server that answers for metrics.k8s.io as told.
func machinesOf(t *testing.T, answer http.HandlerFunc) Machines {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/metrics.k8s.io/v1beta1/nodes" {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return ReadMachines(t.Context(), client.CoreV1().RESTClient())
}

func TestMachines(t *testing.T) {
	fails := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	const two = `{"kind":"NodeMetricsList","items":[{"metadata":{"name":"a"},"usage":{"cpu":"1500m","memory":"2Gi"}},` +
		`{"metadata":{"name":"b"},"usage":{"cpu":"250m","memory":"512Mi"}},{"metadata":{"name":"of-another-pool"},"usage":{"cpu":"90","memory":"900Gi"}}]}`
	for name, tc := range map[string]struct {
		answer      http.HandlerFunc
		nodes       []string
		cpu, memory string
		measured    int
		unmeasured  string
	}{
		"both nodes":              {answer: says(two), nodes: []string{"a", "b"}, cpu: "1750m", memory: "2560Mi", measured: 2},
		"one that is not there":   {answer: says(two), nodes: []string{"a", "new"}, cpu: "1500m", memory: "2Gi", measured: 1},
		"none that is there":      {answer: says(two), nodes: []string{"new"}, unmeasured: "metrics-server tells nothing of its nodes"},
		"no metrics-server":       {answer: fails(http.StatusNotFound), nodes: []string{"a"}, unmeasured: "the cluster has no metrics-server (metrics.k8s.io)"},
		"no right":                {answer: fails(http.StatusForbidden), nodes: []string{"a"}, unmeasured: "you may not list nodes of metrics.k8s.io"},
		"one that is down":        {answer: fails(http.StatusServiceUnavailable), nodes: []string{"a"}, unmeasured: "metrics-server (metrics.k8s.io) does not answer: "},
		"one that talks nonsense": {answer: says("<html>"), nodes: []string{"a"}, unmeasured: "metrics-server (metrics.k8s.io) does not answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			load := machinesOf(t, tc.answer).LoadOf(tc.nodes)
			if load.Measured != tc.measured || !strings.HasPrefix(load.Unmeasured, tc.unmeasured) || (load.Unmeasured == "") != (tc.unmeasured == "") || load.Message().String() != load.Unmeasured {
				t.Errorf("got %+v, want %d nodes and %q", load, tc.measured, tc.unmeasured)
			}
			if (load.CPU == nil) != (tc.cpu == "") || (load.Memory == nil) != (tc.memory == "") {
				t.Fatalf("got %v and %v, want %q and %q", load.CPU, load.Memory, tc.cpu, tc.memory)
			}
			if tc.cpu != "" && (load.CPU.Cmp(resource.MustParse(tc.cpu)) != 0 || load.Memory.Cmp(resource.MustParse(tc.memory)) != 0) {
				t.Errorf("got %s and %s, want %s and %s", load.CPU, load.Memory, tc.cpu, tc.memory)
			}
		})
	}
}

func TestAMetricsServerThatHangsIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	load := machinesOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).LoadOf([]string{"a"})
	if load.Unmeasured == "" || time.Since(began) > 10*machineTimeout {
		t.Errorf("got %+v after %s", load, time.Since(began))
	}
}

// TestPoolsTellTheirCPUAndMemory sums up what pods ask of the nodes of a pool, and what these use.
func TestPoolsTellTheirCPUAndMemory(t *testing.T) {
	sized := func(name, pool string) corev1.Node {
		out := node(t, name, pool)
		out.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("1Ti")}
		return out
	}
	asking := pod(t, "train", "a1", "1", "nvidia.com/gpu", 0)
	asking.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("7500m"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	out := Build(&snapshot.Snapshot{Nodes: []corev1.Node{sized("a1", "a"), sized("a2", "a"), sized("b1", "b")}, Pods: []corev1.Pod{asking}}, gpumetrics.Samples{})
	out.WithMachines(machinesOf(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"a1"},"usage":{"cpu":"3","memory":"10Gi"}}]}`)
	}))
	a, b := out.Pools[0], out.Pools[1]
	if a.CPU.Allocatable.String() != "192" || a.CPU.Requested.String() != "7500m" || a.Memory.Allocatable.String() != "2Ti" || a.Memory.Requested.String() != "64Gi" {
		t.Errorf("pool a has %+v and %+v", a.CPU, a.Memory)
	}
	if a.Use.CPU.String() != "3" || a.Use.Measured != 1 || b.Use.CPU != nil || b.Use.Unmeasured == "" || !b.CPU.Requested.IsZero() {
		t.Errorf("pool a uses %+v, pool b %+v", a.Use, b.Use)
	}
}
