package main

import (
	"fmt"
	"io"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// publishedShare is one seed in how many FGD runs on: it varies little, and takes longer.
const publishedShare = 4

// worstPercents are at how much arrived the worst seed is looked for: large pods are refused before the first, GPUs are unused at the second.
var worstPercents = []int{95, 100}

// worstSeeds prints, for each variant of the default trace, the mean and the worst seed of FGD and of ours without and with knowledge of idle nodes.
func worstSeeds(out io.Writer, seeds int, first int64) error {
	nodes, original, err := readDefault()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| variant | arrived % | FGD | without idle nodes | worst | with | worst | its seed |\n|---|---|---|---|---|---|---|---|")
	for _, variant := range placement.Variants() {
		pods := variant.Mix.MakeTrace(nodes, original)
		fgd := fillVariant(&variant, nodes, pods, seedsFrom(first, max(seeds/publishedShare, 1)), func(trace.Arrivals) placement.Policy {
			return placement.FragmentationGradientDescent{Workload: placement.NewWorkload(pods)}
		})
		blind := fillVariant(&variant, nodes, pods, seedsFrom(first, seeds), func(a trace.Arrivals) placement.Policy {
			return placement.NewLeastFragmentation(a.Nodes, 0).WithoutIdleNodes()
		})
		ours := fillVariant(&variant, nodes, pods, seedsFrom(first, seeds), func(a trace.Arrivals) placement.Policy {
			return placement.NewLeastFragmentation(a.Nodes, 0)
		})
		for _, percent := range worstPercents {
			published, _ := statistics(fgd, percent)
			without, off := statistics(blind, percent)
			with, deviation := statistics(ours, percent)
			_, worstWithout := worstOf(blind, percent)
			at, worstWith := worstOf(ours, percent)
			fmt.Fprintf(out, "| %s | %d | %.2f | %.2f ± %.2f | %.2f | %.2f ± %.2f | %.2f | %d |\n", variant.Name, percent,
				100-published, 100-without, off, worstWithout, 100-with, deviation, worstWith, first+int64(at))
		}
	}
	return nil
}

func seedsFrom(first int64, count int) []int64 {
	seeds := make([]int64, count)
	for i := range seeds {
		seeds[i] = first + int64(i)
	}
	return seeds
}

// fillVariant returns the series of each seed. One runs after the other, so that it takes one processor.
func fillVariant(variant *placement.Variant, nodes []trace.Node, pods []trace.Pod, seeds []int64, policy func(trace.Arrivals) placement.Policy) []trace.Series {
	var series []trace.Series
	for _, seed := range seeds {
		arrivals := variant.DrawArrivals(nodes, pods, seed)
		series = append(series, placement.Fill(arrivals, policy(arrivals)))
	}
	return series
}

// worstOf returns the position of the seed with the fewest GPUs allocated, and how many are not, in percent.
func worstOf(series []trace.Series, percent int) (at int, unallocated float64) {
	values := make([]float64, len(series))
	for i := range series {
		values[i] = 100 - series[i][percent]
	}
	worst := slices.Max(values)
	return slices.Index(values, worst), worst
}
