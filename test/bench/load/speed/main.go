// Command speed measures our scheduler against the stock kube-scheduler and writes what it finds as Markdown. It is what
// `make bench` runs. Both schedulers are measured in turns, on the same machine, nodes and pods; figures are medians.
//
//	go run ./test/bench/load/speed --rounds 1 --nodes 1000 --open-loop 30s --harness=false
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measuring:", err)
		os.Exit(1)
	}
}

// options say what to measure.
type options struct {
	root     string
	rounds   int
	nodes    []int
	pods     int
	openLoop time.Duration
	cycle    bool
	process  bool
	harness  bool
	cases    string
	out      string
	data     string
	add      bool
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("speed", pflag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "The repository, with bin/gpu-scheduler and bin/tools built")
	flags.IntVar(&o.rounds, "rounds", 5, "How often each scheduler is measured; medians are reported")
	flags.IntSliceVar(&o.nodes, "nodes", []int{1000, 5000}, "Numbers of nodes")
	flags.IntVar(&o.pods, "pods", 5000, "Pods that wait for each scheduler as a process")
	flags.DurationVar(&o.openLoop, "open-loop", 5*time.Minute, "How long pods come at a fixed rate; 0 leaves this out")
	flags.BoolVar(&o.cycle, "cycle", true, "Also measure the scheduling cycle alone")
	flags.BoolVar(&o.process, "processes", true, "Also run the schedulers as processes")
	flags.BoolVar(&o.harness, "harness", true, "Also run Kubernetes' scheduler_perf")
	flags.StringVar(&o.cases, "cases", "", "Only the cases of scheduler_perf that this regular expression matches, such as GPUPods/1000Nodes")
	flags.StringVar(&o.out, "out", "", "File for the report; standard output if empty")
	flags.StringVar(&o.data, "data", "", "File for the figures of each round, as JSON")
	flags.BoolVar(&o.add, "add", false, "Add to the figures that are in the file, rather than begin again")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.add && o.data == "" {
		return o, errors.New("--add without --data: name the file of the figures to add to")
	}
	if o.rounds < 1 || o.pods < 2 {
		return o, fmt.Errorf("--rounds is %d and --pods %d, want at least 1 and 2", o.rounds, o.pods)
	}
	if !o.process {
		o.nodes = nil
	}
	var err error
	o.root, err = filepath.Abs(o.root)
	return o, err
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r := report{options: o}
	if r.figures, err = begin(&o, args); err != nil {
		return err
	}
	if err := r.measure(ctx, progress); err != nil {
		return err
	}
	if o.out == "" {
		_, err := io.WriteString(os.Stdout, r.markdown())
		return err
	}
	return r.save()
}
