package main

import (
	"path/filepath"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load/cycle"
)

// BenchmarkFirstAttempt measures the first attempt of a process beside the stock scheduler, in seconds of CPU: on 20,000 nodes with 8 GPUs
// each, all in use.
//
//	go test ./test/bench/load/matrix -run '^$' -bench FirstAttempt -benchtime 1x
func BenchmarkFirstAttempt(b *testing.B) {
	o := options{root: filepath.FromSlash("../../../..")}
	a := with(func(a *axes) { a.nodes, a.state = 20_000, full })
	world, err := a.world(whole)
	if err != nil {
		b.Fatal(err)
	}
	pod := &rows[0]
	var spent [2]time.Duration
	for b.Loop() {
		for i, setup := range []cycle.Setup{o.ours(), o.stock()} {
			c, err := cycle.New(b.Context(), world, setup)
			if err != nil {
				b.Fatal(err)
			}
			l := &lab{axes: &a}
			began := cycle.CPUTime()
			if err := l.try(b.Context(), c, pod, l.batch(pod, 0, 1)); err != nil {
				b.Fatal(err)
			}
			spent[i] += cycle.CPUTime() - began
		}
	}
	b.ReportMetric(spent[0].Seconds()/float64(b.N), "ours-cpu-s")
	b.ReportMetric(spent[1].Seconds()/float64(b.N), "stock-cpu-s")
}
