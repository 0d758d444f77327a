package process

import (
	"context"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// BenchmarkWave measures how pods of high priority, one for each node, take the places of those of low priority that fill 100 nodes,
// beside the stock scheduler. A round that does not come to its end is told and not counted: the stock scheduler forgets a pod now and then
// whose victims are gone before it evicts them, until others are deleted.
//
//	go test ./test/bench/load/process -run '^$' -bench Wave -benchtime 3x
func BenchmarkWave(b *testing.B) {
	const nodes = 100
	lab := newLab(b, load.Fleet{Nodes: nodes, Pools: 4})
	var last, cpu [2][]float64 // until the last of them is bound, from the start of the process; and what it took
	for round := 0; b.Loop(); round++ {
		for turn := range oursAndStock {
			i := (turn + round) % 2
			result, err := wave(b.Context(), lab, oursAndStock[i])
			if err != nil && i == 0 {
				b.Fatal(err)
			}
			if err != nil {
				b.Logf("round %d, %s: %v", round, oursAndStock[i].Name, err)
				continue
			}
			took := result.FirstBinding.Seconds() + float64(nodes-1)/result.PodsPerSecond
			last[i], cpu[i] = append(last[i], took), append(cpu[i], result.CPUPerPod.Seconds()*1000)
		}
	}
	if len(last[1]) == 0 {
		b.Fatal("no round of the stock scheduler came to its end")
	}
	for i, s := range oursAndStock {
		b.ReportMetric(median(last[i]), s.Name+"-s")
		b.ReportMetric(median(cpu[i]), s.Name+"-cpu-ms/pod")
	}
	b.ReportMetric(median(last[0])/median(last[1]), "ours/stock-s")
	b.ReportMetric(median(cpu[0])/median(cpu[1]), "ours/stock-cpu")
}

func wave(ctx context.Context, lab *Lab, s Scheduler) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return lab.Wave(ctx, s)
}
