// Package cycle measures the scheduling cycle alone, our shipped configuration against the stock one: the real
// snapshot, framework and plugins, without queue, binding and API server.
//
//	go test -run '^$' -bench . ./test/perf/cycle
//
// Both schedulers place the same pods in turns, so that a ratio does not depend on what else the machine does.
package cycle

import (
	"fmt"
	"testing"

	"g8s.host/gpu-scheduler/test/perf"
)

// podsPerTurn fill up to 12 % of the smallest fleet.
const podsPerTurn = 1000

func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet := perf.Fleet{Nodes: nodes, Pools: 4}
			ours, theirs := newCluster(b, fleet, shipped), newCluster(b, fleet, stock)
			var a, s cost
			for b.Loop() {
				a.add(turn(b, ours))
				s.add(turn(b, theirs))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(a.podsPerSecond(), "ours-pods/s")
			b.ReportMetric(a.cpuPerPod(), "ours-cpu-us/pod")
			b.ReportMetric(a.mallocsPerPod(), "ours-allocs/pod")
			b.ReportMetric(s.podsPerSecond(), "stock-pods/s")
			b.ReportMetric(s.cpuPerPod(), "stock-cpu-us/pod")
			b.ReportMetric(s.mallocsPerPod(), "stock-allocs/pod")
			b.ReportMetric(s.cpuPerPod()/a.cpuPerPod(), "cpu-ratio")
		})
	}
}

func turn(tb testing.TB, c *cluster) cost {
	tb.Helper()
	spent, err := c.fill(tb.Context(), podsPerTurn)
	if err != nil {
		tb.Fatal(err)
	}
	return spent
}
