package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/placement"
	"g8s.host/gpu-scheduler/pkg/simulate/tracefile"
)

const leastFragmentation = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nstrategy: LeastFragmentation\n"

// TestTheBenchmarkMeasuresThePlugin places a part of the trace twice: through the framework and our plugins with the
// shipped configuration, and by the policy that the benchmark runs. Each pod has to go to the same node, so that what
// the benchmark finds out about the policy holds for the plugin.
func TestTheBenchmarkMeasuresThePlugin(t *testing.T) {
	nodes, err := tracefile.Nodes("openb/testdata/openb_node_list_gpu_node.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := tracefile.Pods("openb/testdata/openb_pod_list_default.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if i%3 == 0 && pods[i].GPUs > 0 { // the trace has no pods that name a model
			pods[i].Models = []string{"P100", "T4"}
		}
	}
	some := nodes[:0:0]
	for i := 0; i < len(nodes); i += 40 {
		some = append(some, nodes[i])
	}
	arrivals := placement.Arrive(some, pods, 0.95, 42)
	policy := placement.NewCluster(arrivals.Nodes, placement.NewLeastFragmentation(arrivals.Nodes))
	var want []string
	for i := range arrivals.Pods {
		if at, _ := policy.Place(&arrivals.Pods[i]); at >= 0 {
			want = append(want, arrivals.Pods[i].Name+" on "+policy.Nodes[at].Name)
		}
	}
	candidate := shipped(t)
	if err := simulate.SetPolicy(candidate.Config, []byte(leastFragmentation)); err != nil {
		t.Fatal(err)
	}
	result, err := simulate.Run(t.Context(), simulate.Cluster{Nodes: simulate.NodesOf(arrivals.Nodes)},
		simulate.ArrivalsOf(arrivals.Pods), candidate, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, decision := range result.Decisions {
		got = append(got, strings.TrimPrefix(decision.Pod, "trace/")+" on "+decision.Node)
	}
	if len(want) < 150 {
		t.Errorf("%d pods were placed, too few to prove anything", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placements (-policy +plugin):\n%.3000s", diff)
	}
}
