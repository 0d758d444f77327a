// Command scrape measures what it costs to watch the programs with Prometheus: how much a scrape of each is, how much of it
// Prometheus keeps, and how much of a core both sides need for it, in a cluster of simulated nodes and of jobs that run and wait.
// Everything is on, and each program runs as it is shipped. It prints the table of docs/monitoring.md.
//
//	go run ./test/bench/scrape --nodes 1000 --jobs 2000
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// documented is how often the monitors have Prometheus look.
const documented = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measuring:", err)
		os.Exit(1)
	}
}

// options say what to measure.
type options struct {
	nodes, pools, jobs int
	interval, phase    time.Duration
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("scrape", pflag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 1000, "Simulated nodes of 8 GPUs")
	flags.IntVar(&o.pools, "pools", 30, "Pools that the nodes are dealt to")
	flags.IntVar(&o.jobs, "jobs", 2000, "Jobs of one pod; one in four asks for more GPUs than a node has, and waits")
	flags.DurationVar(&o.interval, "interval", 6*time.Second, "How often Prometheus looks meanwhile: longer than gpu-controller keeps a count, 5s")
	flags.DurationVar(&o.phase, "for", 2*time.Minute, "How long CPU time is measured, first without Prometheus and then with it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.pools < 1 || o.nodes < o.pools || o.jobs < 4 || o.interval < time.Second || o.phase < o.interval {
		return o, errors.New("give at least a node for each pool, 4 jobs, an interval of 1s, and one interval to measure for")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.cluster.Stop()) }()
	if err := w.furnish(ctx); err != nil {
		return err
	}
	if err := w.weigh(ctx); err != nil {
		return err
	}
	if err := w.measure(ctx); err != nil {
		return err
	}
	w.report(out)
	return nil
}
