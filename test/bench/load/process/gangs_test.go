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
	compareBacklogs(b, Gangs{Count: 50, Members: 64}, [2]backlogMeasure{{"gangs", lab.GangBacklog}, {"singles", lab.SingleBacklog}})
}

// BenchmarkRecognizedGangs measures how fast 500 RayClusters of 10 pods are bound, which name no PodGroups, beside as many gangs that do:
//
//	go test ./test/bench/load/process -run '^$' -bench RecognizedGangs -benchtime 3x
func BenchmarkRecognizedGangs(b *testing.B) {
	lab := newLab(b, load.Fleet{Nodes: 5000, Pools: 1})
	compareBacklogs(b, Gangs{Count: 500, Members: 10}, [2]backlogMeasure{{"recognized", lab.RecognizedBacklog}, {"labelled", lab.GangBacklog}})
}

// backlogMeasure measures one kind of gangs.
type backlogMeasure struct {
	of      string
	measure func(context.Context, Scheduler, Gangs) (Result, error)
}

// compareBacklogs reports the medians of two measures that take turns, and the ratio of the first to the second.
func compareBacklogs(b *testing.B, gangs Gangs, measures [2]backlogMeasure) {
	b.Helper()
	var rates, cpu [2][]float64
	for round := 0; b.Loop(); round++ {
		for turn := range measures {
			i := (turn + round) % 2
			result, err := measures[i].measure(b.Context(), Scheduler{Name: "ours"}, gangs)
			if err != nil {
				b.Fatal(err)
			}
			rates[i], cpu[i] = append(rates[i], result.PodsPerSecond), append(cpu[i], result.CPUPerPod.Seconds()*1000)
		}
	}
	for i := range measures {
		b.ReportMetric(median(rates[i]), measures[i].of+"-pods/s")
		b.ReportMetric(median(cpu[i]), measures[i].of+"-cpu-ms/pod")
	}
	b.ReportMetric(median(rates[0])/median(rates[1]), measures[0].of+"/"+measures[1].of)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
