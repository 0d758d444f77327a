// Package cycle measures the scheduling cycle alone, our shipped configuration against the stock one: the real
// snapshot, framework and plugins, without queue, binding and API server.
//
//	go test -run '^$' -bench . ./test/perf/cycle
//
// The clusters of one benchmark place the same pods in turns, so that a ratio does not depend on what else the machine
// does. CPU time is that of the process, with garbage collection.
package cycle

import (
	"fmt"
	"testing"

	"g8s.host/gpu-scheduler/test/perf"
)

// podsPerTurn fill 12 % of the GPUs of the smallest fleet.
const podsPerTurn = 1000

// BenchmarkCycle compares our scheduler with the stock one while pools grow with the cluster.
func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet := perf.Fleet{Nodes: nodes, Pools: 4}
			spent := inTurns(b, newCluster(b, fleet, shipped), newCluster(b, fleet, stock))
			ours, theirs := &spent[0], &spent[1]
			b.ReportMetric(ours.podsPerSecond(), "ours-pods/s")
			b.ReportMetric(ours.cpuPerPod(), "ours-cpu-us/pod")
			b.ReportMetric(ours.mallocsPerPod(), "ours-allocs/pod")
			b.ReportMetric(theirs.podsPerSecond(), "stock-pods/s")
			b.ReportMetric(theirs.cpuPerPod(), "stock-cpu-us/pod")
			b.ReportMetric(theirs.mallocsPerPod(), "stock-allocs/pod")
			b.ReportMetric(ours.cpuPerPod()/theirs.cpuPerPod(), "cpu-ratio")
		})
	}
}

// BenchmarkGrowth shows what other pools cost a pod: the pools stay as large as they are, and become more.
func BenchmarkGrowth(b *testing.B) {
	const nodesPerPool = 250
	var clusters []*cluster
	sizes := []int{1000, 5000, 20000}
	for _, nodes := range sizes {
		clusters = append(clusters, newCluster(b, perf.Fleet{Nodes: nodes, Pools: nodes / nodesPerPool}, shipped))
		clusters[len(clusters)-1].pools = 4 // so that each pool gets as many pods
	}
	spent := inTurns(b, clusters...)
	for i, nodes := range sizes {
		b.ReportMetric(spent[i].cpuPerPod(), fmt.Sprintf("cpu-us/pod-at-%d", nodes))
	}
	b.ReportMetric(spent[2].cpuPerPod()/spent[0].cpuPerPod(), "growth")
}

// BenchmarkWideCycle shows what trying the best nodes first is worth: one of the two schedulers looks at all.
func BenchmarkWideCycle(b *testing.B) {
	fleet := perf.Fleet{Nodes: 5000, Pools: 4}
	spent := inTurns(b, newCluster(b, fleet, shipped), newCluster(b, fleet, wide))
	b.ReportMetric(spent[0].cpuPerPod(), "list-cpu-us/pod")
	b.ReportMetric(spent[1].cpuPerPod(), "all-nodes-cpu-us/pod")
	b.ReportMetric(spent[0].cpuPerPod()/spent[1].cpuPerPod(), "cpu-ratio")
}

// inTurns lets clusters place pods one after the other, as often as the benchmark asks, and sums up what that took. Before
// it counts, each has placed a few, so that the inventory of each node, which is read once, has been.
func inTurns(b *testing.B, clusters ...*cluster) []cost {
	b.Helper()
	const few = 100
	for _, c := range clusters {
		turn(b, c, few)
	}
	spent := make([]cost, len(clusters))
	for b.Loop() {
		for i, c := range clusters {
			spent[i].add(turn(b, c, podsPerTurn))
		}
	}
	b.ReportMetric(0, "ns/op") // of all clusters together, which says nothing
	return spent
}

func turn(tb testing.TB, c *cluster, pods int) cost {
	tb.Helper()
	spent, err := c.fill(tb.Context(), pods)
	if err != nil {
		tb.Fatal(err)
	}
	return spent
}

// TestOursIsNoSlowerThanHalfOfStock fails on a loss far outside of noise: it is three times as fast and more.
func TestOursIsNoSlowerThanHalfOfStock(t *testing.T) {
	const pods = 300
	fleet := perf.Fleet{Nodes: 500, Pools: 4}
	ours, theirs := newCluster(t, fleet, shipped), newCluster(t, fleet, stock)
	turn(t, ours, pods) // reads each node's inventory
	turn(t, theirs, pods)
	var a, s cost
	for range 3 {
		a.add(turn(t, ours, pods))
		s.add(turn(t, theirs, pods))
	}
	t.Logf("500 nodes: %.0f µs of CPU and %.0f allocations a pod, stock %.0f and %.0f: %.2f times the CPU",
		a.cpuPerPod(), a.mallocsPerPod(), s.cpuPerPod(), s.mallocsPerPod(), a.cpuPerPod()/s.cpuPerPod())
	if a.cpuPerPod() > 2*s.cpuPerPod() {
		t.Errorf("a pod takes %.0f µs of CPU, more than twice the %.0f of the stock scheduler", a.cpuPerPod(), s.cpuPerPod())
	}
}
