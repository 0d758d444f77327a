package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load"
	"g8s.host/gpu-scheduler/test/bench/load/process"
)

// pools is how many pools the nodes are in.
const pools = 4

// seek is how long the highest rate is sought, and share the part of it at which pods come in the open loop.
const (
	seek  = 30 * time.Second
	share = 0.6
)

// pair is what the rounds of our scheduler and of the stock one found.
type pair[T any] struct{ Ours, Stock []T }

// report is the figures of this run and of those before it, and how to add to them.
type report struct {
	options options
	figures
}

func (r *report) schedulers() (ours, stock process.Scheduler) {
	return process.Scheduler{Name: "gpu-scheduler", Config: filepath.Join(r.options.root, "manifests", "scheduler", "scheduler-config.yaml")},
		process.Scheduler{Name: "stock", Config: filepath.Join(r.options.root, "test", "bench", "load", "testdata", "stock.yaml")}
}

func (r *report) measure(ctx context.Context, progress io.Writer) error {
	if err := r.measureCycle(ctx); err != nil {
		return err
	}
	for i, nodes := range r.options.nodes {
		if err := r.measureProcesses(ctx, nodes, i == 0, progress); err != nil {
			return fmt.Errorf("with %d nodes: %w", nodes, err)
		}
		if err := r.save(); err != nil {
			return err
		}
	}
	if !r.options.harness {
		return nil
	}
	return r.measureHarness(ctx, progress)
}

// measureCycle runs the benchmarks of the scheduling cycle alone, and keeps their figures.
func (r *report) measureCycle(ctx context.Context) error {
	if !r.options.cycle {
		return nil
	}
	output, err := r.command(ctx, r.options.root, "go", "test", "-run=^$", "-bench=.",
		fmt.Sprintf("-benchtime=%dx", r.options.rounds), "-timeout=1h", "./test/bench/load/cycle")
	if err != nil {
		return fmt.Errorf("measuring the scheduling cycle: %w", err)
	}
	var cycle []string
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "Benchmark") {
			cycle = append(cycle, strings.TrimSpace(line))
		}
	}
	r.Cycle = cycle
	return r.save()
}

// measureProcesses measures both schedulers with a number of nodes.
func (r *report) measureProcesses(ctx context.Context, nodes int, openLoop bool, progress io.Writer) (err error) {
	lab, err := process.NewLab(ctx, load.Fleet{Nodes: nodes, Pools: pools}, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	key := backlogOf(r.options.pods, nodes)
	if r.Backlogs[key] == nil {
		r.Backlogs[key] = &pair[process.Result]{}
	}
	found := r.Backlogs[key]
	ours, stock := r.schedulers()
	err = r.inTurns(func(round int, isOurs bool) error {
		scheduler, results := stock, &found.Stock
		if isOurs {
			scheduler, results = ours, &found.Ours
		}
		result, err := lab.Backlog(ctx, scheduler, r.options.pods)
		if err != nil {
			return err
		}
		*results = append(*results, result)
		fmt.Fprintf(progress, "%d nodes, round %d, %s: %+v\n", nodes, round, scheduler.Name, result)
		return nil
	})
	if err != nil || !openLoop || r.options.openLoop == 0 {
		return err
	}
	return r.measureOpenLoop(ctx, lab, progress)
}

// inTurns calls do for both schedulers in each round, and lets each begin every other round.
func (r *report) inTurns(do func(round int, ours bool) error) error {
	for round := 1; round <= r.options.rounds; round++ {
		for _, ours := range []bool{round%2 == 1, round%2 == 0} {
			if err := do(round, ours); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureOpenLoop seeks the highest rate of our scheduler, and puts a part of it on both.
func (r *report) measureOpenLoop(ctx context.Context, lab *process.Lab, progress io.Writer) error {
	ours, stock := r.schedulers()
	highest, err := lab.Flow(ctx, ours, process.Load{Duration: seek})
	if err != nil {
		return fmt.Errorf("seeking the highest rate: %w", err)
	}
	found := openLoop{Nodes: r.options.nodes[0], Rate: highest.PodsPerSecond * share, Duration: r.options.openLoop}
	load := process.Load{Rate: found.Rate, Duration: found.Duration}
	for scheduler, result := range map[process.Scheduler]*process.Flowed{ours: &found.Ours, stock: &found.Stock} {
		if *result, err = lab.Flow(ctx, scheduler, load); err != nil {
			return fmt.Errorf("with %.0f pods a second, %s: %w", found.Rate, scheduler.Name, err)
		}
		fmt.Fprintf(progress, "open loop at %.0f pods/s, %s: %+v\n", found.Rate, scheduler.Name, *result)
	}
	r.OpenLoops = append(r.OpenLoops, found)
	return nil
}
