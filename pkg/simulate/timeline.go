package simulate

import (
	"math"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/chart"
)

// sample is the state of the cluster at a moment, as shares of all GPUs in percent.
type sample struct {
	at time.Duration
	// asked is what has been asked for since the beginning.
	asked, allocated, fragmented float64
}

// timeline is what is drawn of a run.
type timeline struct {
	samples []sample
	// timed is true if pods end, so that the axis is time, and not the amount requested.
	timed bool
	// delays are how long pods waited for their node, in order of length.
	delays []time.Duration
}

// maxPoints is how many points of a line are drawn; more are not seen.
const maxPoints = 400

// drawLine draws a value of the samples against time in hours, or against what was asked for.
func (t *timeline) drawLine(name string, value func(*sample) float64) chart.Line {
	out := chart.Line{Name: name}
	step := max(1, len(t.samples)/maxPoints)
	for i := 0; i < len(t.samples); i += step {
		s := &t.samples[i]
		x := s.asked
		if t.timed {
			x = s.at.Hours()
		}
		out.Points = append(out.Points, chart.Point{X: x, Y: value(s)})
	}
	return out
}

// shortestDelay is where a scale without zero begins: pods that waited for less count as those that did not wait.
const shortestDelay = time.Second

// drawDistribution draws the share of the pods, in percent, by their maximum wait in seconds, up to a longest.
func (t *timeline) drawDistribution(name string, longest time.Duration) chart.Line {
	out := chart.Line{Name: name}
	if len(t.delays) == 0 {
		return out
	}
	share := func(most time.Duration) float64 {
		count, _ := slices.BinarySearchFunc(t.delays, most, func(delay, most time.Duration) int {
			if delay <= most {
				return -1
			}
			return 1
		})
		return 100 * float64(count) / float64(len(t.delays))
	}
	for at := range maxPoints + 1 {
		most := shortestDelay.Seconds() * math.Pow(longest.Seconds()/shortestDelay.Seconds(), float64(at)/maxPoints)
		out.Points = append(out.Points, chart.Point{X: most, Y: share(time.Duration(math.Ceil(most * float64(time.Second))))})
	}
	return out
}

// sortDurations returns durations in order of length.
func sortDurations(all []time.Duration) []time.Duration {
	out := slices.Clone(all)
	slices.Sort(out)
	return out
}
