package simulate

import (
	"math"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/chart"
)

// DrawPlots draws results as SVG: the allocation, the fragmentation, and, where pods end, how long they waited.
func DrawPlots(results []*Result) [][]byte {
	timed := slices.ContainsFunc(results, func(r *Result) bool { return r.timeline.timed })
	waits := slices.ContainsFunc(results, func(r *Result) bool { return len(r.timeline.delays) > 0 })
	allocation, fragmentation := allocationPlot(timed), fragmentationPlot(timed)
	for _, r := range results {
		allocation.Lines = append(allocation.Lines, r.timeline.drawLine(r.Name, func(s *sample) float64 { return s.allocated }))
		fragmentation.Lines = append(fragmentation.Lines, r.timeline.drawLine(r.Name, func(s *sample) float64 { return s.fragmented }))
	}
	all := []*chart.Lines{allocation, fragmentation}
	if timed && waits {
		all = append(all, delayPlot(results))
	}
	drawn := make([][]byte, len(all))
	for i, plot := range all {
		drawn[i] = plot.SVG()
	}
	return drawn
}

const (
	axisHours = "time since the beginning (hours)"
	axisAsked = "GPUs asked for (% of all GPUs)"
)

func allocationPlot(timed bool) *chart.Lines {
	if timed {
		return &chart.Lines{Title: "Allocated GPUs over time", X: axisHours, Y: "allocated (% of all GPUs)", Legend: chart.BottomRight}
	}
	return &chart.Lines{Title: "Allocated GPUs against GPUs asked for", X: axisAsked, Y: "allocated (% of all GPUs)"}
}

func fragmentationPlot(timed bool) *chart.Lines {
	plot := &chart.Lines{
		Title: "Free GPUs that the pods of this workload cannot use", X: axisAsked, Y: "fragmented (% of all GPUs)",
	}
	if timed {
		plot.X = axisHours
	}
	return plot
}

// delayPlot begins where the first line does: most pods do not wait, and what counts are the others.
func delayPlot(results []*Result) *chart.Lines {
	longest := 10 * shortestDelay
	for _, r := range results {
		if n := len(r.timeline.delays); n > 0 {
			longest = max(longest, r.timeline.delays[n-1])
		}
	}
	plot := &chart.Lines{
		Title: "How long pods waited for a node", X: "waited at most (seconds, logarithmic; 1 is at once)",
		Y: "pods (% of those placed)", LogX: true, Legend: chart.BottomRight, MinY: 100,
	}
	for _, r := range results {
		line := r.timeline.drawDistribution(r.Name, longest)
		if len(line.Points) > 0 {
			plot.MinY = min(plot.MinY, 10*math.Floor(line.Points[0].Y/10)-10)
		}
		plot.Lines = append(plot.Lines, line)
	}
	plot.MinY = max(plot.MinY, 0)
	return plot
}
