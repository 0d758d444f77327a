package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/test/bench/load/process"
)

func TestFiguresAreMediansAndRatios(t *testing.T) {
	result := func(cpu time.Duration, rate float64) process.Result {
		return process.Result{CPUPerPod: cpu, PodsPerSecond: rate, PeakMemory: 100 << 20}
	}
	r := report{figures: figures{Backlogs: map[string]*pair[process.Result]{backlogOf(10, 1000): {
		Ours:  []process.Result{result(time.Millisecond, 300), result(9*time.Millisecond, 100), result(2*time.Millisecond, 200)},
		Stock: []process.Result{result(4*time.Millisecond, 50), result(8*time.Millisecond, 150)},
	}}}}
	text := r.backlogText()
	for _, want := range []string{
		"### 10 pods waiting, 1000 nodes",
		"| CPU of the scheduler a pod | 2.00 ms | 6.00 ms | 0.33 |",
		"| pods a second, end to end | 200 | 100 | 2.00 |",
		"| memory of the scheduler, peak | 100 MiB | 100 MiB | 1.00 |",
		"| attempt, p99 | 0.00 ms | 0.00 ms | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestStartsAreOfTheRoundsThatMeasuredThem: figures of before know nothing of starts.
func TestStartsAreOfTheRoundsThatMeasuredThem(t *testing.T) {
	started := func(after time.Duration) process.Result { return process.Result{FirstBinding: after} }
	p := &pair[process.Result]{Ours: []process.Result{started(0), started(2 * time.Second)}, Stock: []process.Result{started(0)}}
	if rows := startRow(p); rows != nil {
		t.Errorf("%v of a scheduler whose start was not measured", rows)
	}
	p.Stock = append(p.Stock, started(4*time.Second))
	want := []string{"| start of the process to the first binding | 2000.00 ms | 4000.00 ms | 0.50 |"}
	if diff := cmp.Diff(want, startRow(p)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestBenchmarkLinesBecomeRows(t *testing.T) {
	r := report{figures: figures{Cycle: []string{"BenchmarkGrowth-2   \t       3\t       217.8 cpu-us/pod-at-1000\t         1.036 growth"}}}
	text := r.cycleText()
	for _, want := range []string{"| Growth-2 | cpu-us/pod-at-1000 | 217.8 |\n", "| Growth-2 | growth | 1.036 |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReadHarness(t *testing.T) {
	const name = `"Name": "BenchmarkPerfScheduling/GPUPods/500Nodes/namespace-2"`
	const written = `{"version": "v1", "dataItems": [
		{"data": {"Average": 156.7, "Perc50": 134}, "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput", ` + name + `}},
		{"data": {"Perc50": 124, "Perc95": 460, "Perc99": 787}, "unit": "ms",
			"labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "result": "scheduled", ` + name + `}},
		{"data": {"Perc50": 1, "Perc95": 2, "Perc99": 3}, "unit": "ms",
			"labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "result": "unschedulable", ` + name + `}},
		{"data": {"Max": 284}, "unit": "MB", "labels": {"Metric": "heap_memory_usage", ` + name + `}}
	]}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "out.json"), []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	rates := filepath.Join(dir, ratesFile)
	if _, err := readHarness(dir); err == nil {
		t.Error("a folder without rates is read")
	}
	if err := os.WriteFile(rates, []byte(`{"case":"GPUPods/500Nodes","pods":2000,"seconds":8}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readHarness(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]harnessResult{
		"GPUPods/500Nodes": {Rate: 250, Mean: 156.7, Attempt50: 124, Attempt95: 460, Attempt99: 787, Heap: 284},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what scheduler_perf found (-want +got):\n%s", diff)
	}
	if _, err := readHarness(t.TempDir()); err == nil {
		t.Error("a folder without results is read")
	}
	for what, written := range map[string]string{
		"a workload of which no pod was placed": `{"case":"GPUPods/500Nodes","pods":0,"seconds":0}`,
		"a workload without a rate":             "",
		"half a line":                           `{"case":"GPUPods/500Nodes","pods":`,
	} {
		if err := os.WriteFile(rates, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readHarness(dir); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}

func TestTheTableOfSchedulerPerfHasTheSpreadOfItsRounds(t *testing.T) {
	r := report{figures: figures{Harness: map[string]*pair[harnessResult]{"GPUPods/500Nodes": {
		Ours:  []harnessResult{{Rate: 300, Mean: 90, Heap: 100}, {Rate: 200, Mean: 80, Heap: 100}, {Rate: 240, Mean: 70, Heap: 100}},
		Stock: []harnessResult{{Rate: 100, Mean: 60, Heap: 200}, {Rate: 200, Mean: 50, Heap: 200}, {Rate: 120, Mean: 40, Heap: 200}},
	}}}}
	const want = "| GPUPods/500Nodes | 240 | 120 | 2.00 | 1.00 – 3.00 | 80 | 50 | 0 / 0 / 0 ms | 0 / 0 / 0 ms | 100 MB | 200 MB |\n"
	if text := r.harnessText(); !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestEachSchedulerBeginsEveryOtherRound(t *testing.T) {
	r := report{options: options{rounds: 2}}
	var got []bool
	if err := r.inTurns(func(_ int, ours bool) error { got = append(got, ours); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false, false, true}, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

func TestACommandCanBeTypedAgain(t *testing.T) {
	f, err := begin(&options{}, []string{"--add", "--cases", "(MixedPods|HotReload)/500Nodes"})
	if err != nil {
		t.Fatal(err)
	}
	r := report{figures: f}
	const want = "| `go run ./test/bench/load/speed --add --cases '(MixedPods\\|HotReload)/500Nodes'` |"
	if text := r.head(); !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestOptionsThatMeasureNothing(t *testing.T) {
	for _, args := range [][]string{{"--rounds", "0"}, {"--pods", "1"}, {"--unknown"}, {"--add"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestARunAddsToTheFiguresBeforeIt(t *testing.T) {
	o := options{data: filepath.Join(t.TempDir(), "figures.json"), add: true}
	began := func() figures {
		f, err := begin(&o, []string{"--rounds", "1"})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := report{options: o, figures: began()}
	first.Backlogs[backlogOf(10, 1000)] = &pair[process.Result]{Ours: []process.Result{{PodsPerSecond: 300}}}
	first.Harness["GPUPods/500Nodes"] = &pair[harnessResult]{Stock: []harnessResult{{Heap: 284}}}
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	second := began()
	if diff := cmp.Diff(first.Backlogs, second.Backlogs); diff != "" {
		t.Errorf("backlogs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first.Harness, second.Harness); diff != "" {
		t.Errorf("scheduler_perf (-want +got):\n%s", diff)
	}
	if len(second.Runs) != 2 {
		t.Errorf("%d runs are noted, want 2", len(second.Runs))
	}
	if err := os.WriteFile(o.data, []byte("no figures"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(&o, nil); err == nil {
		t.Error("a file without figures is added to, and so lost")
	}
	o.add = false
	if f, err := begin(&o, nil); err != nil || len(f.Backlogs) != 0 {
		t.Errorf("again: %v, %v", f, err)
	}
}
