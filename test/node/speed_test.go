package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// What the agent may take. The times are those of a machine that does nothing else, see [quietMachine]; they are told always.
const (
	medianStart = 0.020 // seconds
	slowStart   = 0.100 // of 99 in 100
	agentMiB    = 60
	agentCores  = 0.01 // at rest
)

// startsMetric is the histogram of how long PreStartContainer took.
const startsMetric = "gpu_agent_container_start_seconds"

// TestTheAgentIsQuickAndSmall starts containers with cards on a node that has many pods without, and then leaves it alone.
func TestTheAgentIsQuickAndSmall(t *testing.T) {
	needTime(t)
	for i := range *crowd {
		name := fmt.Sprintf("crowd-%d", i)
		pod := shape{parts: []part{{}}}.pod(name)
		pod.Spec.NodeName = bed.Name
		if err := create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(context.WithoutCancel(t.Context()), name, true); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range *crowd {
		if _, err := inside.await(t.Context(), reportName(fmt.Sprintf("crowd-%d", i), partName(0)), 1); err != nil {
			t.Fatal(err)
		}
	}
	quiet := watchMachine(t)
	before := starts(t)
	for i := range *starters {
		name := fmt.Sprintf("quick-%d", i)
		pod := shape{parts: []part{{cards: 1}}}.pod(name)
		pod.Spec.SchedulerName = "by-hand"
		t.Run(name, func(t *testing.T) { started(t, pod, choice(i%8)) })
	}
	after := starts(t)
	count := after.GetSampleCount() - before.GetSampleCount()
	if count < uint64(*starters) {
		t.Fatalf("the agent has started %d containers, want %d", count, *starters)
	}
	median, slow := within(before, after, .5), within(before, after, .99)
	t.Logf("PreStartContainer of %d containers beside %d pods: half within %g ms, 99 %% within %g ms", count, *crowd, median*1000, slow*1000)
	if (median > medianStart || slow > slowStart) && quiet.holds(t, "the times of PreStartContainer") {
		t.Errorf("want half within %g ms and 99 %% within %g ms", medianStart*1000, slowStart*1000)
	}
	atRest(t)
}

// atRest leaves the node alone for a while and looks at what the agent takes.
func atRest(t *testing.T) {
	t.Helper()
	pid := cluster.FindProcess(realnode.AgentName).PID()
	const rest = 10 * time.Second
	sleep(t.Context(), 3*time.Second)
	quiet := watchMachine(t)
	began := processorSeconds(t, pid)
	sleep(t.Context(), rest)
	cores := (processorSeconds(t, pid) - began) / rest.Seconds()
	memory := residentMiB(t, pid)
	t.Logf("the agent at rest takes %.2f %% of a core and %d MiB", cores*100, memory)
	if memory > agentMiB {
		t.Errorf("want %d MiB at the most", agentMiB)
	}
	if cores > agentCores && quiet.holds(t, "what the agent takes at rest") {
		t.Errorf("want %.0f %% at the most", agentCores*100)
	}
}

// starts reads the agent's histogram of starts that went well.
func starts(t *testing.T) *dto.Histogram {
	t.Helper()
	for _, metric := range measured(t, startsMetric) {
		if labelOf(metric, "result") == "bound" {
			return metric.GetHistogram()
		}
	}
	return &dto.Histogram{}
}

// measured reads a metric of the agent.
func measured(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	families, err := scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return families[name].GetMetric()
}

// scrape reads all metrics of the agent.
func scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+bed.AgentAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func labelOf(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// within returns the bound of the bucket within which a share of the starts between two readings was done.
func within(before, after *dto.Histogram, share float64) float64 {
	earlier := map[float64]uint64{}
	for _, bucket := range before.GetBucket() {
		earlier[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
	}
	all := float64(after.GetSampleCount() - before.GetSampleCount())
	for _, bucket := range after.GetBucket() {
		if float64(bucket.GetCumulativeCount()-earlier[bucket.GetUpperBound()]) >= share*all {
			return bucket.GetUpperBound()
		}
	}
	return 0
}

// ticks is how many of them a second has in /proc: 100 on every Linux that Go knows.
const ticks = 100

// processorSeconds is the processor time that a process has used.
func processorSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may have blanks
	fields := strings.Fields(rest)
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	if err != nil {
		t.Fatal(err)
	}
	return (user + system) / ticks
}

func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatalf("process %d has no memory", pid)
	return 0
}
