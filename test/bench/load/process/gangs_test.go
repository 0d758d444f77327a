package process

import (
	"context"
	"slices"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// BenchmarkWaitingGangs measures what 200 gangs of 8 nodes cost that wait for a full cluster of 5,000:
//
//	go test ./test/bench/load/process -run '^$' -bench WaitingGangs -benchtime 1x
func BenchmarkWaitingGangs(b *testing.B) {
	lab := newLab(b, load.Fleet{Nodes: 5000, Pools: 4})
	for b.Loop() {
		waited, err := lab.Waiting(b.Context(), Scheduler{Name: "ours"}, Gangs{Count: 200, Members: 8}, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(waited.First.Seconds(), "first-s")
		b.ReportMetric(waited.Still, "cores-still")
		b.ReportMetric(waited.Churning, "cores-churning")
	}
}

// BenchmarkGangsBound measures how fast 50 gangs of 64 nodes are bound on 5,000 idle ones, beside as many pods of the same size:
//
//	go test ./test/bench/load/process -run '^$' -bench GangsBound -benchtime 3x
func BenchmarkGangsBound(b *testing.B) {
	lab := newLab(b, load.Fleet{Nodes: 5000, Pools: 1})
	gangs := Gangs{Count: 50, Members: 64}
	var rates, cpu [2][]float64
	measures := [2]func(context.Context, Scheduler, Gangs) (Result, error){lab.GangBacklog, lab.SingleBacklog}
	for round := 0; b.Loop(); round++ {
		for turn := range measures {
			i := (turn + round) % 2
			result, err := measures[i](b.Context(), Scheduler{Name: "ours"}, gangs)
			if err != nil {
				b.Fatal(err)
			}
			rates[i], cpu[i] = append(rates[i], result.PodsPerSecond), append(cpu[i], result.CPUPerPod.Seconds()*1000)
		}
	}
	for i, of := range []string{"gangs", "singles"} {
		b.ReportMetric(median(rates[i]), of+"-pods/s")
		b.ReportMetric(median(cpu[i]), of+"-cpu-ms/pod")
	}
	b.ReportMetric(median(rates[0])/median(rates[1]), "gangs/singles")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
