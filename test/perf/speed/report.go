package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/test/perf/process"
)

// intro says what is measured and why it is as it is. Figures follow.
//
//go:embed intro.md
var intro string

// number is any figure.
type number interface{ ~int | ~int64 | ~float64 }

// medianOf returns the median of one figure over the rounds, 0 without any.
func medianOf[T any, N number](rounds []T, figure func(T) N) float64 {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = float64(figure(rounds[i]))
	}
	slices.Sort(values)
	switch n := len(values); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (values[n/2-1] + values[n/2]) / 2
	default:
		return values[n/2]
	}
}

// row compares one figure.
func row[T any, N number](what string, p *pair[T], format func(float64) string, figure func(T) N) string {
	ours, stock := medianOf(p.ours, figure), medianOf(p.stock, figure)
	ratio := "–"
	if stock > 0 {
		ratio = fmt.Sprintf("%.2f", ours/stock)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", what, format(ours), format(stock), ratio)
}

func plain(v float64) string    { return fmt.Sprintf("%.1f", v) }
func whole(v float64) string    { return fmt.Sprintf("%.0f", v) }
func mib(v float64) string      { return fmt.Sprintf("%.0f MiB", v/(1<<20)) }
func duration(v float64) string { return fmt.Sprintf("%.2f ms", v/float64(time.Millisecond)) }

// markdown is the report.
func (r *report) markdown() string {
	var b strings.Builder
	for _, part := range []string{intro, r.head(), r.cycleText(), r.backlogText(), r.openLoopText(), r.harnessText()} {
		b.WriteString(part)
	}
	return b.String()
}

func (r *report) head() string {
	load := "unknown"
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	return fmt.Sprintf(`## Figures

Written by %s on %s: %s, %d CPUs, load average %s at the end, %d rounds, medians. A ratio is ours by
the stock scheduler's.
`, "`make bench`", r.began.UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), load, r.options.rounds)
}

func (r *report) cycleText() string {
	if len(r.cycle) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### The scheduling cycle alone\n\n| benchmark | figure | value |\n|---|---|---|\n")
	for _, line := range r.cycle {
		fields := strings.Fields(line) // name, rounds, then pairs of value and unit
		name := strings.TrimPrefix(fields[0], "Benchmark")
		for i := 2; i+1 < len(fields); i += 2 {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, fields[i+1], fields[i])
		}
	}
	return b.String()
}

func (r *report) backlogText() string {
	var b strings.Builder
	for _, nodes := range slices.Sorted(maps.Keys(r.backlogs)) {
		p := r.backlogs[nodes]
		lines := []string{
			row("CPU of the scheduler a pod", p, duration, func(v process.Result) time.Duration { return v.CPUPerPod }),
			row("pods a second, end to end", p, whole, func(v process.Result) float64 { return v.PodsPerSecond }),
			row("attempt, p50", p, duration, func(v process.Result) time.Duration { return v.Attempt50 }),
			row("attempt, p95", p, duration, func(v process.Result) time.Duration { return v.Attempt95 }),
			row("attempt, p99", p, duration, func(v process.Result) time.Duration { return v.Attempt99 }),
			row("memory of the scheduler, peak", p, mib, func(v process.Result) int64 { return v.PeakMemory }),
			row("API writes a pod", p, plain, func(v process.Result) float64 { return v.WritesPerPod }),
		}
		fmt.Fprintf(&b, "\n### %d pods waiting, %d nodes\n\n| | gpu-scheduler | stock | ratio |\n|---|---|---|---|\n%s\n",
			r.options.pods, nodes, strings.Join(lines, "\n"))
	}
	return b.String()
}

func (r *report) openLoopText() string {
	p := &r.openLoops
	if len(p.ours) == 0 {
		return ""
	}
	lines := []string{
		row("p50", p, duration, func(v process.Flowed) time.Duration { return v.P50 }),
		row("p95", p, duration, func(v process.Flowed) time.Duration { return v.P95 }),
		row("p99", p, duration, func(v process.Flowed) time.Duration { return v.P99 }),
		row("the longest", p, duration, func(v process.Flowed) time.Duration { return v.Max }),
		row("pods placed by the periodic flush alone", p, whole, func(v process.Flowed) int { return v.Flushed }),
	}
	return fmt.Sprintf("\n### Pods that come at a fixed rate, %d nodes\n\n%.0f pods a second for %s, %d %% of the highest rate of gpu-scheduler; from creation to binding.\n\n"+
		"| | gpu-scheduler | stock | ratio |\n|---|---|---|---|\n%s\n",
		r.options.nodes[0], r.rate, r.options.openLoop, int(share*100), strings.Join(lines, "\n"))
}

func (r *report) harnessText() string {
	if len(r.harness) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### scheduler_perf\n\n| case | pods a second | stock | ratio | attempt p50 / p95 / p99 | stock | heap of the process | stock |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.SortedFunc(maps.Keys(r.harness), cmp.Compare[string]) {
		p := r.harness[name]
		rate := func(v harnessResult) float64 { return v.podsPerSecond }
		heap := func(v harnessResult) float64 { return v.heap }
		ours, stock := medianOf(p.ours, rate), medianOf(p.stock, rate)
		ratio := "–"
		if stock > 0 {
			ratio = fmt.Sprintf("%.2f", ours/stock)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s | %s | %s | %.0f MB | %.0f MB |\n", name, ours, stock, ratio,
			attempts(p.ours), attempts(p.stock), medianOf(p.ours, heap), medianOf(p.stock, heap))
	}
	return b.String()
}

func attempts(rounds []harnessResult) string {
	return fmt.Sprintf("%.0f / %.0f / %.0f ms",
		medianOf(rounds, func(v harnessResult) float64 { return v.attempt50 }),
		medianOf(rounds, func(v harnessResult) float64 { return v.attempt95 }),
		medianOf(rounds, func(v harnessResult) float64 { return v.attempt99 }))
}
