package main

import (
	"fmt"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// tally is what had come of the jobs at a load.
type tally struct {
	// large is how many jobs of 8 GPUs had come, refused how many of them had found no node.
	large, refused int
	// allocated is the share of all GPUs, in percent.
	allocated float64
}

// tallies counts at each load. No job leaves, so one that finds no node when it comes never does.
func tallies(arrivals trace.Arrivals, result *simulate.Result) []tally {
	placed := make([]bool, len(arrivals.Pods))
	for _, decision := range result.Decisions {
		placed[decision.Arrival] = true
	}
	capacity := trace.TotalCapacity(arrivals.Nodes)
	out := make([]tally, len(loads))
	for at, load := range loads {
		asked, allocated := int64(0), int64(0)
		for i := range arrivals.Pods {
			pod := &arrivals.Pods[i]
			if asked+pod.TotalMilliGPU() > int64(load)*capacity/100 {
				break
			}
			asked += pod.TotalMilliGPU()
			if placed[i] {
				allocated += pod.TotalMilliGPU()
			}
			if pod.GPUs == large {
				out[at].large++
				if !placed[i] {
					out[at].refused++
				}
			}
		}
		out[at].allocated = 100 * float64(allocated) / float64(capacity)
	}
	return out
}

// report sums up the seeds.
type report struct {
	Seeds, Nodes, GPUs, Jobs int
	Loads                    []int
	sums                     map[configv1.Strategy][]tally
}

func newReport(seeds, nodes, gpus, jobs int) *report {
	return &report{Seeds: seeds, Nodes: nodes, GPUs: gpus, Jobs: jobs, Loads: loads, sums: map[configv1.Strategy][]tally{}}
}

func (r *report) add(strategy configv1.Strategy, of []tally) {
	if r.sums[strategy] == nil {
		r.sums[strategy] = make([]tally, len(loads))
	}
	for i, t := range of {
		sum := &r.sums[strategy][i]
		sum.large += t.large
		sum.refused += t.refused
		sum.allocated += t.allocated
	}
}

// Row is a strategy with a text for each load.
type Row struct {
	Strategy configv1.Strategy
	Cells    []string
}

func (r *report) rows(cell func(tally) string) []Row {
	rows := make([]Row, len(strategies))
	for i, strategy := range strategies {
		rows[i].Strategy = strategy
		for _, t := range r.sums[strategy] {
			rows[i].Cells = append(rows[i].Cells, cell(t))
		}
	}
	return rows
}

// Refused is how many jobs of 8 GPUs found no node, of how many, as means of the seeds.
func (r *report) Refused() []Row {
	n := float64(r.Seeds)
	return r.rows(func(t tally) string {
		return fmt.Sprintf("%.1f of %.1f", float64(t.refused)/n, float64(t.large)/n)
	})
}

// Allocated is the share of all GPUs, in percent, as a mean of the seeds.
func (r *report) Allocated() []Row {
	return r.rows(func(t tally) string { return fmt.Sprintf("%.2f", t.allocated/float64(r.Seeds)) })
}
