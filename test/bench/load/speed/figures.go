package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load/process"
)

// figures is all that was measured, in one run or in several. It is kept as JSON, for the whole takes hours and its
// parts are worth most when the machine is idle.
type figures struct {
	Runs []runInfo
	// Cycle is lines of go test -bench, of the last run that had them.
	Cycle []string
	// Backlogs are by pods and nodes, see backlogOf.
	Backlogs  map[string]*pair[process.Result]
	OpenLoops []openLoop
	// Harness is what scheduler_perf found, by case.
	Harness map[string]*pair[harnessResult]
}

// runInfo is where and how a part of the figures came about.
type runInfo struct {
	// Command is what to type for it.
	Command string
	Began   time.Time
	Go      string
	CPUs    int
	// Load is the load average before the run: what others did on the machine.
	Load string
}

// openLoop is pods that came at a fixed rate.
type openLoop struct {
	Nodes int
	// Rate is in pods a second.
	Rate        float64
	Duration    time.Duration
	Ours, Stock process.Flowed
}

func backlogOf(pods, nodes int) string { return fmt.Sprintf("%d pods waiting, %d nodes", pods, nodes) }

// begin returns the figures to add to: those in the file if the options say so, and none otherwise.
func begin(o *options, args []string) (figures, error) {
	f := figures{}
	if o.add {
		data, err := os.ReadFile(o.data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("reading the figures to add to: %w", err)
		}
		if err == nil {
			if err := json.Unmarshal(data, &f); err != nil {
				return f, fmt.Errorf("reading the figures to add to: %s: %w", o.data, err)
			}
		}
	}
	if f.Backlogs == nil {
		f.Backlogs = map[string]*pair[process.Result]{}
	}
	if f.Harness == nil {
		f.Harness = map[string]*pair[harnessResult]{}
	}
	load := "unknown"
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	f.Runs = append(f.Runs, runInfo{
		Command: typed(args),
		Began:   time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(), Load: load,
	})
	return f, nil
}

// save writes what is known so far: the whole takes hours, and what was measured should outlive an interruption.
func (r *report) save() error {
	if r.options.data != "" {
		data, err := json.MarshalIndent(&r.figures, "", "  ")
		if err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
		if err := os.WriteFile(r.options.data, append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	if r.options.out == "" {
		return nil
	}
	if err := os.WriteFile(r.options.out, []byte(r.markdown()), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// typed is the command with these arguments as a shell takes it.
func typed(args []string) string {
	words := []string{"go run ./test/bench/load/speed"}
	for _, arg := range args {
		if strings.ContainsAny(arg, "|()*?[]{}$^&;<> '") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
