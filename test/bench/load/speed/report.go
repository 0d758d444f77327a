package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load/process"
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
	ours, stock := medianOf(p.Ours, figure), medianOf(p.Stock, figure)
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
	var b strings.Builder
	b.WriteString("## Figures\n\nMedians of the rounds; a ratio is ours by the stock scheduler's. They are of these runs:\n\n" +
		"| command | on | Go, CPUs | load average before it |\n|---|---|---|---|\n")
	for _, run := range r.Runs {
		command := strings.ReplaceAll(run.Command, "|", `\|`) // or it would end the cell
		fmt.Fprintf(&b, "| `%s` | %s | %s, %d | %s |\n", command, run.Began.Format("2006-01-02 15:04"), run.Go, run.CPUs, run.Load)
	}
	return b.String()
}

func (r *report) cycleText() string {
	if len(r.Cycle) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### The scheduling cycle alone\n\n| benchmark | figure | value |\n|---|---|---|\n")
	for _, line := range r.Cycle {
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
	for _, name := range slices.Sorted(maps.Keys(r.Backlogs)) {
		p := r.Backlogs[name]
		lines := []string{
			row("CPU of the scheduler a pod", p, duration, func(v process.Result) time.Duration { return v.CPUPerPod }),
			row("pods a second, end to end", p, whole, func(v process.Result) float64 { return v.PodsPerSecond }),
			row("attempt, p50", p, duration, func(v process.Result) time.Duration { return v.Attempt50 }),
			row("attempt, p95", p, duration, func(v process.Result) time.Duration { return v.Attempt95 }),
			row("attempt, p99", p, duration, func(v process.Result) time.Duration { return v.Attempt99 }),
			row("memory of the scheduler, peak", p, mib, func(v process.Result) int64 { return v.PeakMemory }),
			row("API writes a pod", p, plain, func(v process.Result) float64 { return v.WritesPerPod }),
		}
		lines = append(lines, startRow(p)...)
		fmt.Fprintf(&b, "\n### %s\n\n%d and %d rounds.\n\n| | gpu-scheduler | stock | ratio |\n|---|---|---|---|\n%s\n",
			name, len(p.Ours), len(p.Stock), strings.Join(lines, "\n"))
	}
	return b.String()
}

// startRow is about the rounds in which it was measured how long a scheduler takes to begin, none if there are none.
func startRow(p *pair[process.Result]) []string {
	unmeasured := func(v process.Result) bool { return v.FirstBinding == 0 }
	measured := &pair[process.Result]{
		Ours: slices.DeleteFunc(slices.Clone(p.Ours), unmeasured), Stock: slices.DeleteFunc(slices.Clone(p.Stock), unmeasured),
	}
	if len(measured.Ours) == 0 || len(measured.Stock) == 0 {
		return nil
	}
	return []string{row("start of the process to the first binding", measured, duration, func(v process.Result) time.Duration { return v.FirstBinding })}
}

func (r *report) openLoopText() string {
	var b strings.Builder
	for i := range r.OpenLoops {
		o := &r.OpenLoops[i]
		p := &pair[process.Flowed]{Ours: []process.Flowed{o.Ours}, Stock: []process.Flowed{o.Stock}}
		lines := []string{
			row("p50", p, duration, func(v process.Flowed) time.Duration { return v.P50 }),
			row("p95", p, duration, func(v process.Flowed) time.Duration { return v.P95 }),
			row("p99", p, duration, func(v process.Flowed) time.Duration { return v.P99 }),
			row("the longest", p, duration, func(v process.Flowed) time.Duration { return v.Max }),
			row("pods placed by the periodic flush alone", p, whole, func(v process.Flowed) int { return v.Flushed }),
		}
		fmt.Fprintf(&b, "\n### Pods that come at a fixed rate, %d nodes\n\n%.0f pods a second for %s, %d %% of the highest rate of "+
			"gpu-scheduler; from creation to binding.\n\n| | gpu-scheduler | stock | ratio |\n|---|---|---|---|\n%s\n",
			o.Nodes, o.Rate, o.Duration, int(share*100), strings.Join(lines, "\n"))
	}
	return b.String()
}

func (r *report) harnessText() string {
	if len(r.Harness) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### scheduler_perf\n\n| case | pods a second | stock | ratio | from – to | mean of its seconds | stock | attempt p50 / p95 / p99 | stock | heap of the process | stock |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.SortedFunc(maps.Keys(r.Harness), cmp.Compare[string]) {
		p := r.Harness[name]
		rate := func(v harnessResult) float64 { return v.Rate }
		mean := func(v harnessResult) float64 { return v.Mean }
		heap := func(v harnessResult) float64 { return v.Heap }
		fmt.Fprintf(&b, "%s %s | %.0f | %.0f | %s | %s | %.0f MB | %.0f MB |\n", row(name, p, whole, rate), spread(p, rate),
			medianOf(p.Ours, mean), medianOf(p.Stock, mean), attempts(p.Ours), attempts(p.Stock), medianOf(p.Ours, heap), medianOf(p.Stock, heap))
	}
	return b.String()
}

// spread gives the least and the most ratio of the rounds.
func spread[T any, N number](p *pair[T], figure func(T) N) string {
	var ratios []float64
	for i := range min(len(p.Ours), len(p.Stock)) {
		if stock := float64(figure(p.Stock[i])); stock > 0 {
			ratios = append(ratios, float64(figure(p.Ours[i]))/stock)
		}
	}
	if len(ratios) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f – %.2f", slices.Min(ratios), slices.Max(ratios))
}

func attempts(rounds []harnessResult) string {
	return fmt.Sprintf("%.0f / %.0f / %.0f ms",
		medianOf(rounds, func(v harnessResult) float64 { return v.Attempt50 }),
		medianOf(rounds, func(v harnessResult) float64 { return v.Attempt95 }),
		medianOf(rounds, func(v harnessResult) float64 { return v.Attempt99 }))
}
