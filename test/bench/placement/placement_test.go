package placement_test

import (
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

func defaultTrace(t *testing.T) ([]trace.Node, []trace.Pod) {
	t.Helper()
	nodes, err := trace.LoadNodes("../../../pkg/simulate/trace/testdata/openb_node_list_gpu_node.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := trace.LoadPods("../../../pkg/simulate/trace/testdata/openb_pod_list_default.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return nodes, pods
}

// TestThePublishedFigures holds one seed of each policy against the published mean of ten, within their spread. make bench-placement does it for all seeds.
func TestThePublishedFigures(t *testing.T) {
	nodes, pods := defaultTrace(t)
	arrivals := trace.DrawArrivals(nodes, pods, trace.Inflation, 42)
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   float64 // unallocated GPUs in percent, at 100 % arrived
	}{
		"DotProd":    {placement.DotProduct{}, 9.38},
		"Clustering": {placement.Clustering{}, 8.35},
		"Packing":    {placement.Packing{}, 8.22},
		"BestFit":    {placement.BestFit{}, 7.14},
		"FGD":        {placement.FragmentationGradientDescent{Workload: placement.NewWorkload(pods)}, 4.77},
		"ours, which is measured and not published": {placement.NewLeastFragmentation(arrivals.Nodes, 4), 3.77},
		"Random": {placement.Random{Source: rand.New(rand.NewSource(42))}, 13.70},
	} {
		t.Run(name, func(t *testing.T) {
			series := placement.Fill(arrivals, tc.policy)
			if got := 100 - series[100]; math.Abs(got-tc.want) > 0.5 {
				t.Errorf("%.2f %% unallocated, published are %.2f", got, tc.want)
			}
		})
	}
}

func TestArrivalsFollowFromTheSeed(t *testing.T) {
	nodes, pods := defaultTrace(t)
	first, again := trace.DrawArrivals(nodes, pods, trace.Inflation, 42), trace.DrawArrivals(nodes, pods, trace.Inflation, 42)
	if !reflect.DeepEqual(first, again) {
		t.Fatal("the same seed gives other arrivals")
	}
	other := trace.DrawArrivals(nodes, pods, trace.Inflation, 43)
	if reflect.DeepEqual(first.Pods, other.Pods) || reflect.DeepEqual(first.Nodes, other.Nodes) {
		t.Error("another seed gives the same arrivals")
	}
	slices.Reverse(pods)
	if !reflect.DeepEqual(first.Pods, trace.DrawArrivals(nodes, pods, trace.Inflation, 42).Pods) {
		t.Error("arrivals depend on the order of the list")
	}
	asked := int64(0)
	for i := range first.Pods {
		asked += first.Pods[i].TotalMilliGPU()
	}
	if share := float64(asked) / float64(trace.TotalCapacity(nodes)); share < 1.295 || share > 1.301 {
		t.Errorf("pods ask for %.3f times the GPUs, want 1.3", share)
	}
}

func TestATraceThatAsksForTooMuchIsThinned(t *testing.T) {
	nodes := []trace.Node{{Name: "n", GPUs: 2}}
	pods := make([]trace.Pod, 10)
	for i := range pods {
		pods[i] = trace.Pod{Name: string(rune('a' + i)), GPUs: 1, MilliGPU: 1000}
	}
	if got := len(trace.DrawArrivals(nodes, pods, trace.Inflation, 1).Pods); got != 2 {
		t.Errorf("%d pods come, want the 2 that ask for no more than 1.3 times 2 GPUs", got)
	}
}

func TestFits(t *testing.T) {
	spec := []trace.Node{{Name: "n", MilliCPU: 8000, MemoryMiB: 1000, GPUs: 2, Model: "T4"}}
	busy := trace.Pod{Name: "busy", GPUs: 1, MilliGPU: 700, MilliCPU: 1000}
	for name, tc := range map[string]struct {
		pod  trace.Pod
		want bool
	}{
		"the rest of a shared GPU":    {trace.Pod{GPUs: 1, MilliGPU: 300}, true},
		"two GPUs, one is shared":     {trace.Pod{GPUs: 2, MilliGPU: 1000}, false},
		"another model":               {trace.Pod{GPUs: 1, MilliGPU: 1000, Models: []string{"A10"}}, false},
		"one of several models":       {trace.Pod{GPUs: 1, MilliGPU: 1000, Models: []string{"A10", "T4"}}, true},
		"more CPU than is left":       {trace.Pod{MilliCPU: 7001}, false},
		"more memory than there is":   {trace.Pod{MemoryMiB: 1001}, false},
		"no GPU, so any model serves": {trace.Pod{MilliCPU: 1, Models: []string{"A10"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := placement.NewCluster(spec, placement.BestFit{})
			if at, _ := cluster.Place(&busy); at != 0 {
				t.Fatal("the first pod fits nowhere")
			}
			if got := cluster.Nodes[0].Fits(&tc.pod); got != tc.want {
				t.Errorf("fits: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRemoveUndoesPlace(t *testing.T) {
	nodes, pods := defaultTrace(t)
	cluster := placement.NewCluster(nodes, placement.Packing{})
	before := slices.Clone(cluster.Nodes)
	type placed struct {
		at    int
		cards placement.Cards
	}
	var all []placed
	for i := range pods[:500] {
		at, cards := cluster.Place(&pods[i])
		all = append(all, placed{at, cards})
	}
	for i, p := range all {
		if p.at >= 0 {
			cluster.Remove(&pods[i], p.at, p.cards)
		}
	}
	for i := range before {
		before[i].Version = cluster.Nodes[i].Version
	}
	if !reflect.DeepEqual(before, cluster.Nodes) {
		t.Error("nodes are not as before")
	}
}

func TestFragmentation(t *testing.T) {
	workload := placement.NewWorkload([]trace.Pod{
		{Name: "a", GPUs: 1, MilliGPU: 1000, MilliCPU: 1000}, {Name: "b", GPUs: 1, MilliGPU: 500, MilliCPU: 1000},
	})
	node := placement.NewCluster([]trace.Node{{Name: "n", MilliCPU: 8000, GPUs: 2}}, placement.BestFit{}).Nodes[0]
	share := trace.Pod{GPUs: 1, MilliGPU: 600, MilliCPU: 1000}
	shared := node.With(&share, 1)
	starved := node
	starved.MilliCPU = 500
	for name, tc := range map[string]struct {
		node placement.Node
		want float64
	}{
		"all of an empty node can be used":               {node, 0},
		"a rest that is too small for either is waste":   {shared, 400},
		"without CPU every GPU is waste for every class": {starved, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := workload.Fragmentation(&tc.node); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("%v milli-GPUs are fragmented, want %v", got, tc.want)
			}
		})
	}
}

func TestSeriesIsTheMeanOfWhatRoundsToAPercent(t *testing.T) {
	c := trace.Collector{Capacity: 1000}
	c.Add(96, 90)  // 9.6 %
	c.Add(104, 92) // 10.4 %
	c.Add(105, 99) // 10.5 % rounds half to even
	c.Add(2000, 1000)
	series := c.Means()
	if got := math.Round(1000*series[10]) / 1000; got != 9.367 || series[11] != series[10] {
		t.Errorf("%v %% at 10 %% and %v at 11, want the mean of three and then the same", got, series[11])
	}
}
