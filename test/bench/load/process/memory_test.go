package process

import (
	"testing"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// BenchmarkMemory measures what a full cluster of 20,000 nodes takes, with 160,000 pods of one GPU and 10,000 that wait, beside the stock
// scheduler, until 500 of these were tried: the stock one needs an hour for all. It takes some 10 GiB and, on two cores, fifteen minutes.
//
//	go test ./test/bench/load/process -run '^$' -bench Memory -benchtime 1x -timeout 1h
func BenchmarkMemory(b *testing.B) {
	const nodes, waiting, tried = 20_000, 10_000, 500
	lab := newLab(b, load.Fleet{Nodes: nodes, Pools: 4})
	if err := lab.FillWithSmall(b.Context(), waiting); err != nil {
		b.Fatal(err)
	}
	var peaks, cpu [2][]float64
	for round := 0; b.Loop(); round++ {
		for turn := range oursAndStock {
			i := (turn + round) % 2
			peak, took, err := lab.Memory(b.Context(), oursAndStock[i], tried)
			if err != nil {
				b.Fatal(err)
			}
			b.Logf("round %d, %s: %d MiB, %s of CPU", round, oursAndStock[i].Name, peak>>20, took)
			peaks[i], cpu[i] = append(peaks[i], float64(peak>>20)), append(cpu[i], took.Seconds())
		}
	}
	for i, s := range oursAndStock {
		b.ReportMetric(median(peaks[i]), s.Name+"-MiB")
		b.ReportMetric(median(cpu[i]), s.Name+"-cpu-s")
	}
	b.ReportMetric(median(peaks[0])/median(peaks[1]), "ours/stock-MiB")
	b.ReportMetric(median(cpu[0])/median(cpu[1]), "ours/stock-cpu")
}
