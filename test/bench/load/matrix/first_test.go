package main

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load/cycle"
)

// BenchmarkFirstAttempt measures the first attempt of a process beside the stock scheduler, in seconds of CPU: on 20,000 nodes with 8 GPUs
// each, all in use. Ours is measured in a process that leads at once, and in one that has stood by, of which it is also told what that takes: once,
// and each second in which nothing happens.
//
//	go test ./test/bench/load/matrix -run '^$' -bench FirstAttempt -benchtime 1x
func BenchmarkFirstAttempt(b *testing.B) {
	o := options{root: filepath.FromSlash("../../../..")}
	a := with(func(a *axes) { a.nodes, a.state = 20_000, full })
	world, err := a.world(whole)
	if err != nil {
		b.Fatal(err)
	}
	spent := map[string]time.Duration{}
	for b.Loop() {
		spent["ours-cpu-s"] += firstAttempt(b, world, o.setups().ours, &a)
		spent["stock-cpu-s"] += firstAttempt(b, world, o.setups().stock, &a)
		spent["stood-by-cpu-s"] += firstAttempt(b, world, o.setups().ours, &a, func(c *cycle.Cluster) {
			read := c.StandBy()
			spent["reading-cpu-s"] += cpu(func() { read(b.Context()) })
			spent["rest-cpu-s"] += cpu(func() {
				for range rest {
					read(b.Context())
				}
			}) / rest
		})
	}
	for unit, all := range spent {
		b.ReportMetric(all.Seconds()/float64(b.N), unit)
	}
}

// rest is how many seconds a standby is watched in which nothing happens.
const rest = 100

// firstAttempt returns what the first attempt of a new process takes.
func firstAttempt(b *testing.B, world *cycle.World, setup cycle.Setup, a *axes, before ...func(*cycle.Cluster)) time.Duration {
	b.Helper()
	c, err := cycle.New(b.Context(), world, setup)
	if err != nil {
		b.Fatal(err)
	}
	for _, do := range before {
		do(c)
	}
	l, pod := &lab{axes: a}, &rows[0]
	return cpu(func() {
		if err := l.try(b.Context(), c, pod, l.batch(pod, 0, 1)); err != nil {
			b.Fatal(err)
		}
	})
}

func cpu(do func()) time.Duration {
	runtime.GC() // what came before is not to be cleared away on this account
	began := cycle.CPUTime()
	do()
	return cycle.CPUTime() - began
}
