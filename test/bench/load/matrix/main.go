// Command matrix measures what a pod costs our scheduler and the stock one, as it comes and with batching, over shapes of pods and states of clusters,
// and writes docs/benchmarks/matrix.md with a heat map. It takes pods through the scheduling cycle in memory; all
// schedulers run in this process and place the same pods in turns.
//
//	go run ./test/bench/load/matrix                                   all of it, about half an hour
//	go run ./test/bench/load/matrix --rows '8 GPUs|no GPU' --columns 'idle' --out ''    a part, to standard output
//	go run ./test/bench/load/matrix --rows '8 GPUs' --add             a part, into the page beside what it holds
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/test/bench/load/cycle"
)

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
	root          string
	rows, columns *regexp.Regexp
	rounds        int
	out           string
	add           bool
	profile       string
}

func parse(args []string) (*options, error) {
	o := &options{}
	var rows, columns string
	flags := pflag.NewFlagSet("matrix", pflag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "The repository")
	flags.StringVar(&rows, "rows", "", "Only the rows that this regular expression matches, such as '^8 GPUs'")
	flags.StringVar(&columns, "columns", "", "Only the columns that this regular expression matches, such as 'idle|full'")
	flags.IntVar(&o.rounds, "rounds", 3, "How often each scheduler has its turn in a cell")
	flags.StringVar(&o.out, "out", "docs/benchmarks", "Folder of matrix.md, matrix.svg and matrix.json; standard output if empty")
	flags.BoolVar(&o.add, "add", false, "Keep the cells of matrix.json that are not measured")
	flags.StringVar(&o.profile, "cpu-profile", "", "File for a CPU profile of the run, for go tool pprof")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.rounds < 1 {
		return nil, fmt.Errorf("--rounds is %d, want at least 1", o.rounds)
	}
	if o.add && o.out == "" {
		return nil, errors.New("--add without --out: name the folder of the figures to add to")
	}
	var err error
	if o.rows, err = regexp.Compile(rows); err != nil {
		return nil, fmt.Errorf("reading --rows: %w", err)
	}
	if o.columns, err = regexp.Compile(columns); err != nil {
		return nil, fmt.Errorf("reading --columns: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, progress io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	known := figures{}
	if o.add {
		if known, err = readFigures(filepath.Join(o.out, "matrix.json")); err != nil {
			return err
		}
	}
	klog.SetOutput(io.Discard) // a trace of each slow cycle
	if err := o.profiled(func() error { return o.measure(ctx, &known, progress) }); err != nil {
		return err
	}
	if o.out == "" {
		_, err := io.WriteString(stdout, known.markdown())
		return err
	}
	return known.save(o.out)
}

// profiled does something with a profile of it, if that is asked for.
func (o *options) profiled(do func() error) (err error) {
	if o.profile == "" {
		return do()
	}
	file, err := os.Create(o.profile)
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer pprof.StopCPUProfile()
	return do()
}

// measure adds the cells that are asked for to what is known, column by column: rows on nodes of one kind share a
// cluster.
func (o *options) measure(ctx context.Context, known *figures, progress io.Writer) error {
	for i := range columns {
		if !o.columns.MatchString(columns[i].name) {
			continue
		}
		for _, kind := range []hosts{whole, shared, sliced, mixed} {
			if err := o.measureHosts(ctx, &columns[i], kind, known, progress); err != nil {
				return fmt.Errorf("column %q: %w", columns[i].name, err)
			}
		}
	}
	if o.rows.String() != "" { // some rows are asked for, and what a cluster costs is none
		return nil
	}
	return o.measureScale(ctx, known, progress)
}

func (o *options) measureHosts(ctx context.Context, column *column, kind hosts, known *figures, progress io.Writer) error {
	ctx, done := context.WithCancel(ctx) // ends the schedulers
	defer done()
	var l *lab
	for i := range rows {
		r := &rows[i]
		if r.hosts != kind || !o.rows.MatchString(r.name) || !r.comparable(&column.axes) {
			continue
		}
		if l == nil {
			var err error
			if l, err = newLab(ctx, &column.axes, kind, o.comparedSetups()); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := l.measure(ctx, r, o.rounds)
		if err != nil {
			return fmt.Errorf("row %q: %w", r.name, err)
		}
		found.Row, found.Column = r.name, column.name
		known.put(found)
		middle, least, most := found.ratio()
		fmt.Fprintf(progress, "%-22s %-22s ours %8.0f µs  stock %8.0f µs  batching %8.0f µs  %.2f (%.2f–%.2f)\n",
			r.name, column.name, middleOf(found.Ours), middleOf(found.Stock), middleOf(found.Batching), middle, least, most)
	}
	return nil
}

func (o *options) comparedSetups() setups {
	stock := filepath.Join(o.root, "test", "bench", "load", "testdata")
	return setups{
		ours:     cycle.Setup{Config: filepath.Join(o.root, "manifests", "scheduler", "scheduler-config.yaml"), List: true},
		stock:    cycle.Setup{Config: filepath.Join(stock, "stock.yaml")},
		batching: cycle.Setup{Config: filepath.Join(stock, "stock-batching.yaml")},
	}
}

// readFigures returns what has been measured, nothing if there is no file.
func readFigures(path string) (figures, error) {
	known := figures{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		return known, fmt.Errorf("reading the figures to add to: %s: %w", path, err)
	}
	return known, nil
}
