package cycle

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// podsPerTurn fill 12 % of the GPUs of the smallest fleet.
const podsPerTurn = 1000

// The schedulers that are compared.
var (
	shippedConfig = filepath.FromSlash("../../../../manifests/scheduler/scheduler-config.yaml")

	shipped = Setup{Config: shippedConfig, List: true}
	wide    = Setup{Config: shippedConfig}
	stock   = Setup{Config: filepath.FromSlash("../testdata/stock.yaml")}
)

// placer places the pods of a fleet, one of one GPU after the other.
type placer struct {
	*Cluster
	fleet load.Fleet
	pods  int
	// namespaces is of how many the pods are, 0 for one.
	namespaces int
}

func newPlacer(tb testing.TB, fleet load.Fleet, setup Setup) *placer {
	tb.Helper()
	nodes, err := fleet.NodeList()
	if err != nil {
		tb.Fatal(err)
	}
	cluster, err := New(tb.Context(), &World{Nodes: nodes}, setup)
	if err != nil {
		tb.Fatal(err)
	}
	return &placer{Cluster: cluster, fleet: fleet}
}

// turn places pods and takes them away again, and measures the placing.
func (p *placer) turn(tb testing.TB, pods int) Cost {
	tb.Helper()
	spent, err := Measure(func() (int, error) {
		for range pods {
			pod := p.fleet.Pod(p.pods, 1)
			pod.UID = types.UID(fmt.Sprint("uid-", p.pods))
			if p.namespaces > 0 {
				pod.Namespace = namespaceOf(p.pods)
			}
			p.pods++
			if err := p.Place(tb.Context(), pod); err != nil {
				return 0, err
			}
		}
		return pods, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Clear(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return spent
}

// BenchmarkCycle compares our scheduler with the stock one while pools grow with the cluster.
func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet := load.Fleet{Nodes: nodes, Pools: 4}
			spent := inTurns(b, newPlacer(b, fleet, shipped), newPlacer(b, fleet, stock))
			ours, theirs := &spent[0], &spent[1]
			b.ReportMetric(ours.PodsPerSecond(), "ours-pods/s")
			b.ReportMetric(ours.CPUPerPod(), "ours-cpu-us/pod")
			b.ReportMetric(ours.MallocsPerPod(), "ours-allocs/pod")
			b.ReportMetric(theirs.PodsPerSecond(), "stock-pods/s")
			b.ReportMetric(theirs.CPUPerPod(), "stock-cpu-us/pod")
			b.ReportMetric(theirs.MallocsPerPod(), "stock-allocs/pod")
			b.ReportMetric(ours.CPUPerPod()/theirs.CPUPerPod(), "cpu-ratio")
		})
	}
}

// BenchmarkGrowth shows what other pools cost a pod: the pools stay as large as they are, and become more.
func BenchmarkGrowth(b *testing.B) {
	const nodesPerPool = 250
	var clusters []*placer
	sizes := []int{1000, 5000, 20000}
	for _, nodes := range sizes {
		p := newPlacer(b, load.Fleet{Nodes: nodes, Pools: nodes / nodesPerPool}, shipped)
		p.fleet.Pools = 4 // of those there are, so that each pool gets as many pods
		clusters = append(clusters, p)
	}
	spent := inTurns(b, clusters...)
	for i, nodes := range sizes {
		b.ReportMetric(spent[i].CPUPerPod(), fmt.Sprintf("cpu-us/pod-at-%d", nodes))
	}
	b.ReportMetric(spent[2].CPUPerPod()/spent[0].CPUPerPod(), "growth")
}

// BenchmarkWideCycle shows what trying the best nodes first is worth: one of the two schedulers looks at all.
func BenchmarkWideCycle(b *testing.B) {
	fleet := load.Fleet{Nodes: 5000, Pools: 4}
	spent := inTurns(b, newPlacer(b, fleet, shipped), newPlacer(b, fleet, wide))
	b.ReportMetric(spent[0].CPUPerPod(), "list-cpu-us/pod")
	b.ReportMetric(spent[1].CPUPerPod(), "all-nodes-cpu-us/pod")
	b.ReportMetric(spent[0].CPUPerPod()/spent[1].CPUPerPod(), "cpu-ratio")
}

// inTurns lets clusters place pods one after the other, as often as the benchmark asks, and sums up what that took. Before
// it counts, each has placed a few, so that the inventory of each node, which is read once, has been.
func inTurns(b *testing.B, clusters ...*placer) []Cost {
	b.Helper()
	const few = 100
	for _, c := range clusters {
		c.turn(b, few)
	}
	spent := make([]Cost, len(clusters))
	for b.Loop() {
		for i, c := range clusters {
			spent[i].Add(c.turn(b, podsPerTurn))
		}
	}
	b.ReportMetric(0, "ns/op") // of all clusters together, which says nothing
	return spent
}

// TestOursIsNoSlowerThanHalfOfStock fails on a loss far outside of noise: it is three times as fast and more.
func TestOursIsNoSlowerThanHalfOfStock(t *testing.T) {
	const pods = 300
	fleet := load.Fleet{Nodes: 500, Pools: 4}
	ours, theirs := newPlacer(t, fleet, shipped), newPlacer(t, fleet, stock)
	ours.turn(t, pods) // reads each node's inventory
	theirs.turn(t, pods)
	var a, s Cost
	for range 3 {
		a.Add(ours.turn(t, pods))
		s.Add(theirs.turn(t, pods))
	}
	t.Logf("500 nodes: %.0f µs of CPU and %.0f allocations a pod, stock %.0f and %.0f: %.2f times the CPU",
		a.CPUPerPod(), a.MallocsPerPod(), s.CPUPerPod(), s.MallocsPerPod(), a.CPUPerPod()/s.CPUPerPod())
	if a.CPUPerPod() > 2*s.CPUPerPod() {
		t.Errorf("a pod takes %.0f µs of CPU, more than twice the %.0f of the stock scheduler", a.CPUPerPod(), s.CPUPerPod())
	}
}
