package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// harnessResult is what was found in one case of scheduler_perf. Durations are in milliseconds, memory is in megabytes.
type harnessResult struct {
	// Rate is how many pods a second were placed, from the first one's creation to the last one's binding; Mean is scheduler_perf's own
	// figure, of whole seconds.
	Rate, Mean, Attempt50, Attempt95, Attempt99, Heap float64
}

// ratesFile has how fast the pods of each workload were placed, as package harness writes it.
const ratesFile = "rates"

// measureHarness runs scheduler_perf in turns.
func (r *report) measureHarness(ctx context.Context, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "speed-")
	if err != nil {
		return fmt.Errorf("making a folder for scheduler_perf: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "harness.test")
	source := filepath.Join(r.options.root, "test", "bench", "load", "harness")
	if _, err := r.command(ctx, source, "go", "test", "-mod=mod", "-c", "-o", binary, "."); err != nil {
		return fmt.Errorf("building scheduler_perf: %w", err)
	}
	ours, stock := r.schedulers()
	return r.inTurns(func(round int, isOurs bool) error {
		scheduler := stock
		if isOurs {
			scheduler = ours
		}
		out := filepath.Join(dir, fmt.Sprintf("%d-%s", round, scheduler.Name))
		_, err := r.command(ctx, source, binary, "-test.run=^$", "-test.bench=PerfScheduling/"+r.options.cases, "-test.benchtime=1x",
			"-test.timeout=3h", "-scheduler-config="+scheduler.Config, fmt.Sprintf("-wrap=%t", isOurs), "-data-items-dir="+out, "-rates="+filepath.Join(out, ratesFile))
		if err != nil {
			return fmt.Errorf("running scheduler_perf with %s: %w", scheduler.Name, err)
		}
		results, err := readHarness(out)
		if err != nil {
			return err
		}
		for name, result := range results {
			if r.Harness[name] == nil {
				r.Harness[name] = &pair[harnessResult]{}
			}
			results := &r.Harness[name].Stock
			if isOurs {
				results = &r.Harness[name].Ours
			}
			*results = append(*results, result)
			fmt.Fprintf(progress, "scheduler_perf, round %d, %s, %s: %+v\n", round, scheduler.Name, name, result)
		}
		return r.save()
	})
}

// command runs a program in a folder, with etcd in its path, and returns its output. That is large, so an error holds
// the part that tells of a failure.
func (r *report) command(ctx context.Context, dir, program string, args ...string) (string, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.options.root, "bin", "tools")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		const shown = 4000
		text := output.String()
		if at := strings.Index(text, "--- FAIL"); at >= 0 {
			text = text[at:]
		}
		return "", fmt.Errorf("%w\n%s", err, text[max(len(text)-shown, 0):])
	}
	return output.String(), nil
}

// dataItems is the file that scheduler_perf writes.
type dataItems struct {
	DataItems []struct {
		Data   map[string]float64 `json:"data"`
		Labels map[string]string  `json:"labels"`
	} `json:"dataItems"`
}

// readHarness reads what one run wrote, by case.
func readHarness(dir string) (map[string]harnessResult, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("reading what scheduler_perf wrote: %d files, want 1", len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil, fmt.Errorf("reading what scheduler_perf wrote: %w", err)
	}
	var items dataItems
	if err := json.Unmarshal(data, &items); err != nil {
		return nil, fmt.Errorf("reading what scheduler_perf wrote: %w", err)
	}
	results := map[string]harnessResult{}
	for _, item := range items.DataItems {
		parts := strings.Split(item.Labels["Name"], "/") // BenchmarkPerfScheduling/GPUPods/1000Nodes/namespace-2
		if len(parts) < 3 {
			continue
		}
		name := parts[1] + "/" + parts[2]
		result := results[name]
		switch metric := item.Labels["Metric"]; {
		case metric == "SchedulingThroughput":
			result.Mean = item.Data["Average"]
		case metric == "heap_memory_usage":
			result.Heap = item.Data["Max"]
		case metric == "scheduler_scheduling_attempt_duration_seconds" && item.Labels["result"] == "scheduled":
			result.Attempt50, result.Attempt95, result.Attempt99 = item.Data["Perc50"], item.Data["Perc95"], item.Data["Perc99"]
		}
		results[name] = result
	}
	return results, readRates(filepath.Join(dir, ratesFile), results)
}

// readRates adds how fast pods were placed, in each of the cases.
func readRates(path string, to map[string]harnessResult) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading how fast pods were placed: %w", err)
	}
	defer func() { _ = file.Close() }()
	for lines := json.NewDecoder(file); ; {
		var rate struct {
			Case    string
			Pods    int
			Seconds float64
		}
		switch err := lines.Decode(&rate); {
		case errors.Is(err, io.EOF):
			return haveRates(to)
		case err != nil:
			return fmt.Errorf("reading how fast pods were placed: %w", err)
		case rate.Seconds <= 0:
			return fmt.Errorf("reading how fast pods were placed: %d in %g s, in the case %s", rate.Pods, rate.Seconds, rate.Case)
		}
		result := to[rate.Case]
		result.Rate = float64(rate.Pods) / rate.Seconds
		to[rate.Case] = result
	}
}

func haveRates(results map[string]harnessResult) error {
	for name := range results {
		if results[name].Rate == 0 {
			return fmt.Errorf("reading how fast pods were placed: nothing of the case %s", name)
		}
	}
	return nil
}
