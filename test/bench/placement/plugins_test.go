package placement_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/manifests"
	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // reads the arguments of our plugins
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// keepMost is the most that can be kept whole, since there are few nodes here.
const keepMost = 100

// keepsMost is a scoring policy with that.
var keepsMost = fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nkeepWholePerMille: %d\n", keepMost)

// TestTheBenchmarkMeasuresThePlugin places a part of the trace twice: through the framework and our plugins with the
// shipped configuration, and by the policy that the benchmark runs. Each pod has to go to the same node, so that what
// the benchmark finds out about the policy holds for the plugin.
func TestTheBenchmarkMeasuresThePlugin(t *testing.T) {
	nodes, pods := defaultTrace(t)
	for i := range pods {
		if i%3 == 0 && pods[i].GPUs > 0 { // the trace has no pods that name a model
			pods[i].Models = []string{"P100", "T4"}
		}
	}
	arrivals := trace.DrawArrivals(everyFortieth(nodes), pods, 0.95, 42)
	policy := placement.NewCluster(arrivals.Nodes, placement.NewLeastFragmentation(arrivals.Nodes, keepMost))
	var want []string
	for i := range arrivals.Pods {
		if at, _ := policy.Place(&arrivals.Pods[i]); at >= 0 {
			want = append(want, arrivals.Pods[i].Name+" on "+policy.Nodes[at].Name)
		}
	}
	got := decided(t, arrivals.Nodes, simulate.ArrivalsFromTrace(arrivals.Pods), keepsMost)
	if len(want) < 150 {
		t.Errorf("%d pods were placed, too few to prove anything", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placements (-policy +plugin):\n%.3000s", diff)
	}
}

// TestTheBenchmarkMeasuresThePluginWherePodsLeave does the same where pods leave, so that both learn that they do.
func TestTheBenchmarkMeasuresThePluginWherePodsLeave(t *testing.T) {
	nodes, pods := defaultTrace(t)
	pods = slices.DeleteFunc(pods, func(pod trace.Pod) bool { return pod.GPUs > 4 }) // those may find no room
	arrivals := trace.DrawArrivals(everyFortieth(nodes), pods, 3, 42)
	comeAndGo(arrivals.Pods)
	want := placed(t, arrivals, keepMost)
	if diff := cmp.Diff(want, decided(t, arrivals.Nodes, simulate.TimedArrivalsFromTrace(arrivals.Pods), keepsMost)); diff != "" {
		t.Errorf("placements (-policy +plugin):\n%.3000s", diff)
	}
}

// TestTheBenchmarkMeasuresThePluginThatKeepsNodesWhole does the same where the last idle nodes would be broken into: for
// pods that have another place, on cards that they leave to others if they may.
func TestTheBenchmarkMeasuresThePluginThatKeepsNodesWhole(t *testing.T) {
	nodes, pods := twoTypes()
	arrivals := trace.DrawArrivals(nodes, pods, 8, 44)
	comeAndGo(arrivals.Pods)
	want := placed(t, arrivals, keepMost)
	if cmp.Equal(want, placed(t, arrivals, 0)) {
		t.Error("it makes no difference that nodes are kept whole, so this proves nothing")
	}
	if diff := cmp.Diff(want, decided(t, arrivals.Nodes, simulate.TimedArrivalsFromTrace(arrivals.Pods), keepsMost)); diff != "" {
		t.Errorf("placements (-policy +plugin):\n%.3000s", diff)
	}
}

// twoTypes returns nodes that few pods take as a whole, and smaller ones of a type that some pods insist on.
func twoTypes() ([]trace.Node, []trace.Pod) {
	var nodes []trace.Node
	for i := range 20 {
		nodes = append(nodes, trace.Node{Name: fmt.Sprintf("large-%02d", i), GPUs: 8, MilliCPU: 96_000, MemoryMiB: 384 << 10, Model: "G2"})
	}
	for i := range 10 {
		nodes = append(nodes, trace.Node{Name: fmt.Sprintf("small-%02d", i), GPUs: 4, MilliCPU: 48_000, MemoryMiB: 192 << 10, Model: "T4"})
	}
	var pods []trace.Pod
	for i := range 100 {
		pod := trace.Pod{Name: fmt.Sprintf("pod-%02d", i), GPUs: 1, MilliGPU: 1000, MilliCPU: 4000, MemoryMiB: 8 << 10}
		switch {
		case i%33 == 0:
			pod.GPUs, pod.MilliCPU = 8, 32_000
		case i%8 == 1:
			pod.Models = []string{"T4"}
		case i%8 == 2:
			pod.MilliGPU = 400
		}
		pods = append(pods, pod)
	}
	return nodes, pods
}

// comeAndGo has a pod come each second. They stay for as long as 120 others take to come, on average, which leaves room
// for all, and for longer than from one model to the next, since the plugin knows nothing of pods between. None comes or
// leaves at the same time.
func comeAndGo(pods []trace.Pod) {
	random := rand.New(rand.NewSource(1))
	for i := range pods {
		pods[i].Created = time.Duration(i+1) * time.Second
		stays := time.Duration(40+random.Intn(160)) * time.Second
		pods[i].Deleted = pods[i].Created + stays + 500*time.Millisecond
	}
}

// placed returns where the policy puts pods that come and go.
func placed(t *testing.T, arrivals trace.Arrivals, perMille int64) []string {
	t.Helper()
	cluster := placement.NewCluster(arrivals.Nodes, placement.NewLeastFragmentation(arrivals.Nodes, perMille))
	var decisions []string
	type tenant struct {
		pod   *trace.Pod
		at    int
		cards placement.Cards
	}
	var running []tenant
	for i := range arrivals.Pods {
		pod := &arrivals.Pods[i]
		running = slices.DeleteFunc(running, func(r tenant) bool {
			if r.pod.Deleted > pod.Created {
				return false
			}
			cluster.Remove(r.pod, r.at, r.cards)
			cluster.Left(r.pod)
			return true
		})
		at, cards := cluster.Place(pod)
		if at < 0 {
			t.Fatalf("there is no room for %s, so that the plugin would keep it waiting", pod.Name)
		}
		decisions = append(decisions, pod.Name+" on "+cluster.Nodes[at].Name)
		running = append(running, tenant{pod, at, cards})
	}
	return decisions
}

func everyFortieth(nodes []trace.Node) []trace.Node {
	some := nodes[:0:0]
	for i := 0; i < len(nodes); i += 40 {
		some = append(some, nodes[i])
	}
	return some
}

// decided returns where the plugins put the pods, with the shipped configuration and a scoring policy.
func decided(t *testing.T, nodes []trace.Node, arrivals []simulate.Arrival, policy string) []string {
	t.Helper()
	data, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := simulate.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate.SetPolicy(cfg, []byte(policy)); err != nil {
		t.Fatal(err)
	}
	candidate := simulate.Candidate{Name: "shipped", Config: cfg}
	result, err := simulate.Run(t.Context(), simulate.Cluster{Nodes: simulate.NodesFromTrace(nodes)}, arrivals, candidate, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, decision := range result.Decisions {
		got = append(got, strings.TrimPrefix(decision.Pod, "trace/")+" on "+decision.Node)
	}
	return got
}
