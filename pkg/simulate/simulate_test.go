package simulate_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// shipped is the configuration that production runs.
func shipped(t *testing.T) simulate.Candidate {
	t.Helper()
	data, err := os.ReadFile("../../manifests/scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := simulate.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate.ReadPolicyFiles(cfg); err != nil {
		t.Fatal(err)
	}
	return simulate.Candidate{Name: "shipped", Config: cfg}
}

func run(t *testing.T, cluster simulate.Cluster, arrivals []simulate.Arrival) *simulate.Result {
	t.Helper()
	result, err := simulate.Run(t.Context(), cluster, arrivals, shipped(t), simulate.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func machines(count int, gpus int64) []trace.Node {
	nodes := make([]trace.Node, count)
	for i := range nodes {
		nodes[i] = trace.Node{Name: "n" + string(rune('0'+i)), MilliCPU: 64_000, MemoryMiB: 1 << 19, GPUs: gpus, Model: "T4"}
	}
	return nodes
}

func asking(name string, gpus, milli int64) trace.Pod {
	return trace.Pod{Name: name, MilliCPU: 1000, MemoryMiB: 1024, GPUs: gpus, MilliGPU: milli}
}

func TestPodsGoThroughTheRealPlugins(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))}
	result := run(t, cluster, simulate.ArrivalsFromTrace([]trace.Pod{
		asking("a", 1, 460), asking("b", 1, 540), asking("c", 2, 1000), asking("d", 1, 1000), asking("e", 0, 0),
	}))
	if result.Placed != 4 || result.AllocatedGPUs != 2 || result.AskedGPUs != 4 || result.AllocatedPercent != 100 {
		t.Errorf("result %+v", result)
	}
	if first, second := result.Decisions[0], result.Decisions[1]; first.Node != second.Node || !strings.Contains(first.Devices, "memoryMiB") ||
		second.Devices != strings.Replace(first.Devices, `"memoryMiB":460`, `"memoryMiB":540`, 1) {
		t.Errorf("two shares that make one GPU went to %+v and %+v, want one card", first, second)
	}
	want := []simulate.Refusal{{Asks: "2 GPU(s)", Pods: 1, GPUs: 2, Reasons: []string{"node(s) have too few free GPUs"}}}
	if diff := cmp.Diff(want, result.Refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestRefusedPodsOfOneSizeHaveEachTheirReason(t *testing.T) {
	large := asking("large", 1, 1000)
	large.MemoryMiB = 9 << 20
	other := asking("other", 1, 1000)
	other.Models = []string{"A10"}
	arrivals := simulate.ArrivalsFromTrace([]trace.Pod{large, other})
	for _, arrival := range simulate.ArrivalsFromTrace([]trace.Pod{asking("p", 1, 1000), asking("q", 1, 1000)}) {
		arrival.Pod.Spec.NodeSelector = map[string]string{names.LabelPool: "nopool"}
		arrivals = append(arrivals, arrival)
	}
	got := map[string]int{}
	for _, refusal := range run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))}, arrivals).Refused {
		got[refusal.Reasons[0]] += refusal.Pods
	}
	if len(got) != 3 || got[`no node is in GPU pool "nopool" (pools: default)`] != 2 {
		t.Errorf("got %v, want three reasons, one of them of two pods", got)
	}
}

func TestAModelIsACondition(t *testing.T) {
	other := asking("a", 1, 1000)
	other.Models = []string{"A10"}
	either := asking("b", 1, 1000)
	either.Models = []string{"A10", "T4"}
	result := run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))}, simulate.ArrivalsFromTrace([]trace.Pod{other, either}))
	if result.Placed != 1 || result.Decisions[0].Pod != "trace/b" {
		t.Errorf("placed %+v", result.Decisions)
	}
}

func TestAPodWaitsUntilOthersEnd(t *testing.T) {
	arrivals := simulate.ArrivalsFromTrace([]trace.Pod{asking("long", 1, 1000), asking("short", 1, 1000), asking("waits", 1, 1000), asking("later", 1, 1000)})
	for i, lifetime := range []time.Duration{100, 10, 20, 1} {
		arrivals[i].Lifetime = lifetime * time.Second
	}
	arrivals[2].At, arrivals[3].At = 5*time.Second, 200*time.Second
	result := run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))}, arrivals)
	if result.Placed != 4 || result.Decisions[2].Pod != "trace/waits" || result.Decisions[2].At != 10 {
		t.Errorf("decisions %+v, want the third pod at 10 s", result.Decisions)
	}
	if diff := cmp.Diff(&simulate.Distribution{Mean: 1.25, P99: 0, Max: 5}, result.Delay); diff != "" {
		t.Errorf("delay (-want +got):\n%s", diff)
	}
	if result.Completion.Max != 100 || result.AllocatedGPUs != 0 && result.AllocatedGPUs != 1 {
		t.Errorf("completion %+v, %v GPUs allocated", result.Completion, result.AllocatedGPUs)
	}
}

func TestEqualInputsGiveEqualDecisions(t *testing.T) {
	var pods []trace.Pod
	for i := range 60 {
		pods = append(pods, asking("p"+string(rune('0'+i)), int64(i%3), []int64{0, 300, 1000}[i%3]))
	}
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(8, 4))}
	first := run(t, cluster, simulate.ArrivalsFromTrace(pods))
	if diff := cmp.Diff(first.Decisions, run(t, cluster, simulate.ArrivalsFromTrace(pods)).Decisions); diff != "" {
		t.Errorf("decisions (-first +second):\n%s", diff)
	}
}

func TestPodsOnTheClusterHoldTheirGPUs(t *testing.T) {
	busy := st.MakePod().Namespace("default").Name("busy").UID("busy").Node("n0").Req(map[corev1.ResourceName]string{names.ResourceGPU: "2"}).Obj()
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(2, 2)), Pods: []*corev1.Pod{busy}}
	result := run(t, cluster, simulate.ArrivalsFromTrace([]trace.Pod{asking("a", 2, 1000)}))
	if result.Placed != 1 || result.Decisions[0].Node != "n1" || result.AllocatedGPUs != 4 {
		t.Errorf("result %+v", result)
	}
	lost := simulate.Cluster{Nodes: cluster.Nodes[1:], Pods: cluster.Pods}
	if _, err := simulate.Run(t.Context(), lost, nil, shipped(t), simulate.Options{}); err == nil || !strings.Contains(err.Error(), `node "n0", which is not there`) {
		t.Errorf("a pod on a node that is missing: %v", err)
	}
}

func TestParseWorkload(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {g8s.host/gpu-devices: x}}, spec: {nodeName: node, containers: [{name: c}]}}\n"
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"a pod, as it was before it had a node": {pod, []string{"default/a"}},
		"a list, in which a custom resource schedules nothing": {
			"apiVersion: v1\nkind: List\nitems:\n- " + pod + "- {apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}\n", []string{"default/a"},
		},
		"the replicas of a deployment": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: x}, spec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}",
			[]string{"x/d-0", "x/d-1"},
		},
		"a training job of gpuctl": {
			"kind: training\nversion: v0.1\njob: {name: t}\nenvironment: {image: i, command: [run]}\nresources: {pool: default, gpu: 1}\n",
			[]string{"default/t-0"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			arrivals, err := simulate.ParseWorkload("file.yaml", []byte(tc.yaml), simulate.Cluster{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, arrival := range arrivals {
				if arrival.Pod.Spec.NodeName != "" || arrival.Pod.UID == "" || arrival.Pod.Annotations[names.AnnotationGPUDevices] != "" {
					t.Errorf("pod %+v is not as before its placement", arrival.Pod)
				}
				got = append(got, arrival.Pod.Namespace+"/"+arrival.Pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseClusterTellsWhoRunsFromWhoWaits(t *testing.T) {
	cluster, waiting, err := simulate.ParseCluster([]byte(`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node}}
- {apiVersion: v1, kind: Pod, metadata: {name: runs}, spec: {nodeName: node}, status: {phase: Running}}
- {apiVersion: v1, kind: Pod, metadata: {name: ended}, spec: {nodeName: node}, status: {phase: Succeeded}}
- {apiVersion: v1, kind: Pod, metadata: {name: waits}, status: {phase: Pending}}
`))
	if err != nil || len(cluster.Nodes) != 1 || len(cluster.Pods) != 1 || cluster.Pods[0].Name != "runs" || len(waiting) != 1 || waiting[0].Pod.Name != "waits" {
		t.Errorf("cluster %+v, waiting %+v, %v", cluster, waiting, err)
	}
}

func TestSetPolicyChangesWherePodsGo(t *testing.T) {
	spread := shipped(t)
	if err := simulate.SetPolicy(spread.Config, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nstrategy: Spread\n")); err != nil {
		t.Fatal(err)
	}
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(2, 4))}
	arrivals := simulate.ArrivalsFromTrace([]trace.Pod{asking("a", 1, 1000), asking("b", 1, 1000)})
	packed := run(t, cluster, arrivals)
	apart, err := simulate.Run(t.Context(), cluster, arrivals, spread, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if packed.Decisions[0].Node != packed.Decisions[1].Node || apart.Decisions[0].Node == apart.Decisions[1].Node {
		t.Errorf("packed %+v, spread %+v", packed.Decisions, apart.Decisions)
	}
	if err := simulate.SetPolicy(spread.Config, []byte("strategy: Spread")); err == nil {
		t.Error("a policy without a kind is taken")
	}
}

func TestReports(t *testing.T) {
	result := run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))},
		simulate.ArrivalsFromTrace([]trace.Pod{asking("a", 1, 1000), asking("b", 2, 1000)}))
	result.Name = "a<b"
	for name, tc := range map[string]struct {
		write func(*bytes.Buffer) error
		want  []string
	}{
		"table": {func(b *bytes.Buffer) error { return simulate.WriteTable(b, []*simulate.Result{result}) }, []string{"50.00 %", "1.0 GPUs", "25.00 %", "1 x 2 GPU(s): node(s) have too few free GPUs"}},
		"json":  {func(b *bytes.Buffer) error { return simulate.WriteJSON(b, []*simulate.Result{result}) }, []string{`"allocatedGPUs": 1`, `"asks": "2 GPU(s)"`}},
		"csv":   {func(b *bytes.Buffer) error { return simulate.WriteCSV(b, []*simulate.Result{result}) }, []string{"configuration,arrived_percent,allocated_percent", "a<b,50,50.000"}},
		"html":  {func(b *bytes.Buffer) error { return simulate.WriteHTML(b, []*simulate.Result{result}) }, []string{"<td>a&lt;b</td>", "<svg", "</svg>"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tc.write(&out); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%.2000s", want, out.String())
				}
			}
		})
	}
}
