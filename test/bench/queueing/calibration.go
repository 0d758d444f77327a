package queueing

import (
	"context"
	"fmt"
	"math"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Calibration is how often what was said of starts came true, of the jobs of one half of a trace that were asked of.
type Calibration struct {
	Nodes  int    `json:"nodes"`
	Policy string `json:"policy"`
	// Half is 1 for the jobs that came first, from which the forecast was tuned, and 2 for the others.
	Half int `json:"half"`
	// Asked is of how many jobs it was asked that waited, and Unknown of how many nothing could be said.
	Asked   int `json:"asked"`
	Unknown int `json:"unknown"`
	// Sizes are those of which something was said, by their GPUs. Of jobs of more than one node gpuctl does not say it.
	Sizes []Coverage `json:"sizes"`
}

// Coverage is how many of some intervals held.
type Coverage struct {
	Size  string `json:"size"`
	Jobs  int    `json:"jobs"`
	Holds int    `json:"holds"`
	// TooEarly and TooLate are the jobs that started before the interval, and after it.
	TooEarly int `json:"tooEarly"`
	TooLate  int `json:"tooLate"`
	// Width is the median of latest less earliest, and Waited that of the wait, in hours.
	Width  float64 `json:"width"`
	Waited float64 `json:"waited"`
}

// Calibrate asks of each so-manieth job of a replay when it starts, and compares: of each half of them for itself.
func Calibrate(ctx context.Context, jobs []*trace.Job, nodes, racks int, policy Named, every int) ([]Calibration, error) {
	if nodes < 1 || racks < 1 {
		return nil, fmt.Errorf("%d nodes in %d racks: want 1 or more of each", nodes, racks)
	}
	told, err := Foretell(ctx, jobs, NewCluster(nodes, racks), policy.New(), every)
	if err != nil {
		return nil, fmt.Errorf("replaying %s on %d nodes: %w", policy.Name, nodes, err)
	}
	var out []Calibration
	for i, half := range [][]Foretold{told[:len(told)/2], told[len(told)/2:]} {
		c := Calibration{Nodes: nodes, Policy: policy.Name, Half: i + 1, Asked: len(half)}
		said := slices.DeleteFunc(slices.Clone(half), func(f Foretold) bool { return !f.Known })
		c.Unknown, c.Sizes = len(half)-len(said), coverages(said)
		out = append(out, c)
	}
	return out, nil
}

// calibrated are the sizes of which it is told what held: those that fit on a node together first.
var calibrated = []Size{
	{"1-8", 1, trace.GPUsPerNode}, {"1", 1, 1}, {"2-7", 2, trace.GPUsPerNode - 1}, {"8", trace.GPUsPerNode, trace.GPUsPerNode},
	{">8", trace.GPUsPerNode + 1, math.MaxInt},
}

func coverages(told []Foretold) (out []Coverage) {
	for _, size := range calibrated {
		c := Coverage{Size: size.Name}
		var widths, waits []float64
		for i := range told {
			f := &told[i]
			if f.Job.GPUs < size.Min || f.Job.GPUs > size.Max {
				continue
			}
			c.Jobs++
			widths, waits = append(widths, (f.Latest-f.Earliest).Hours()), append(waits, f.Waited.Hours())
			switch {
			case f.Waited < f.Earliest:
				c.TooEarly++
			case f.Waited > f.Latest:
				c.TooLate++
			default:
				c.Holds++
			}
		}
		c.Width, c.Waited = median(widths), median(waits)
		out = append(out, c)
	}
	return out
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// CalibrationTable shows calibrations, for people to read.
func CalibrationTable(all []Calibration) Table {
	t := Table{
		Title: "of intervals of 90 %, how many held",
		Head: []string{"nodes", "policy", "half", "GPUs", "jobs that waited", "not known", "holds %", "started before %", "after %",
			"median width h", "median wait h"},
	}
	for i := range all {
		c := &all[i]
		for j := range c.Sizes {
			s := &c.Sizes[j]
			if s.Jobs == 0 {
				continue
			}
			unknown := "" // is not told by size
			if j == 0 {
				unknown = fmt.Sprint(c.Unknown)
			}
			share := func(n int) string { return fixed(100*float64(n)/float64(s.Jobs), 1) }
			t.Rows = append(t.Rows, []string{fmt.Sprint(c.Nodes), c.Policy, fmt.Sprint(c.Half), s.Size, fmt.Sprint(s.Jobs), unknown,
				share(s.Holds), share(s.TooEarly), share(s.TooLate), fixed(s.Width, 2), fixed(s.Waited, 2)})
		}
	}
	return t
}
