package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/bounds"
)

func TestShortenMiddle(t *testing.T) {
	for _, tc := range []struct {
		name  string
		width int
		want  string
	}{
		{"sft-17", 12, "sft-17"},
		{"qwen2-7b-llamafactory-sft-lr-1e-4-17", 12, "qwen2-…-4-17"},
		{"qwen2-7b-llamafactory-sft-lr-1e-4-17", 13, "qwen2-…e-4-17"},
		{"任务池任务池任务池", 8, "任务…池"},
	} {
		got := shortenMiddle(tc.name, tc.width)
		if got != tc.want || monospace.Columns(got) > tc.width {
			t.Errorf("%s in %d columns is %q, want %q", tc.name, tc.width, got, tc.want)
		}
	}
}

// crowdedJobs are so many jobs with long names, of many GPUs and nodes.
func crowdedJobs(count int, now time.Time) []inventory.Job {
	jobs := make([]inventory.Job, count)
	for i := range jobs {
		jobs[i] = inventory.Job{
			Name: fmt.Sprintf("qwen2-72b-instruct-llamafactory-sft-lr-3e-4-seed-%d", i), Namespace: fmt.Sprintf("nlp-research-team-%d", i%100), Kind: "training",
			Status: inventory.StatusRunning, Ready: 1234, Desired: 1250, GPUs: 10000 + int64(i), Pool: fmt.Sprintf("training-pool-%d", i%7),
			Created: now.Add(-time.Duration(i) * time.Minute), Nodes: []string{fmt.Sprintf("train-node-%d", i), "other"}, GPUTypes: []string{"A100-80G"},
		}
		if i%3 == 0 {
			jobs[i].Status, jobs[i].Nodes, jobs[i].Trouble = inventory.StatusPending, nil, inventory.Trouble{Reason: "Busy", Message: "16 node(s) have too few free GPUs, 48 node(s) are in another pool"}
		}
	}
	return jobs
}

// uiFrame draws the jobs of all namespaces as gpuctl ui does.
func uiFrame(jobs []inventory.Job, width, height int, now time.Time) []screen.Line {
	u := &ui{factory: NewFactory(IOStreams{}), state: screen.New(true).WithSize(width, height)}
	table := uiTable(u, jobs, jobColumns(now, true), phrase.Textf("No jobs found."), func(j inventory.Job) screen.Row {
		return screen.Row{Kind: j.Kind, Namespace: j.Namespace, Name: j.Name}
	})
	var pools []string
	for i := range 12 {
		pools = append(pools, fmt.Sprintf("training-pool-%d %d/4096", i, 1000+i))
	}
	return u.state.WithHead(screen.Head{Context: "prod", GPUs: pools, Read: now}).WithTable(table).Lines()
}

// TestNoNumberIsCutOnTheScreen draws 10,000 jobs on a small and on a large terminal: each number stands there whole, that of a name, too.
func TestNoNumberIsCutOnTheScreen(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	jobs := crowdedJobs(10_000, now)
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		begin := time.Now()
		lines := uiFrame(jobs, size[0], size[1], now)
		if took, most := time.Since(begin), bounds.Of(300*time.Millisecond); took > most {
			t.Errorf("%dx%d: the frame took %s, want at most %s", size[0], size[1], took, most)
		}
		for i, line := range lines {
			text := strings.TrimRight(line.String(), " ")
			if strings.HasPrefix(text, "<1-4>") {
				continue // the keys
			}
			if monospace.Columns(text) > size[0] || strings.HasSuffix(text, "…") {
				t.Errorf("%d columns, line %d is cut: %s", size[0], i, text)
			}
			if strings.Contains(text, "1234/") && !regexp.MustCompile(`1234/1250 +1\d{4} `).MatchString(text) {
				t.Errorf("%d columns, line %d lacks a number: %s", size[0], i, text)
			}
		}
		if !slices.ContainsFunc(lines, func(l screen.Line) bool {
			return strings.Contains(l.String(), "seed-1 ") || strings.Contains(l.String(), "ed-1 ")
		}) {
			t.Errorf("%d columns: the end of a name is not there", size[0])
		}
	}
}

// TestPoolsGiveTheirTypesBelow has each type of a pool with its numbers, however narrow the terminal is.
func TestPoolsGiveTheirTypesBelow(t *testing.T) {
	pool := inventory.Pool{Name: "training-pool"}
	for i := range 9 {
		pool.Types = append(pool.Types, inventory.TypeSummary{GPUType: fmt.Sprintf("A100-%dG", 10*i+10), GPUs: inventory.GPUs{Free: 123, Allocatable: 456}})
	}
	var out bytes.Buffer
	if err := writeTable(&out, []inventory.Pool{pool}, poolColumns(), tableStyle{width: 80}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(strings.Join(strings.Fields(out.String()), " "), "123/456"); got != len(pool.Types) {
		t.Errorf("%d of %d types have their numbers:\n%s", got, len(pool.Types), &out)
	}
}

// BenchmarkUIFrame draws 10,000 jobs from what the cluster told last: the first frame, and that of each second after it.
func BenchmarkUIFrame(b *testing.B) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	jobs := crowdedJobs(10_000, now)
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			for b.Loop() {
				uiFrame(jobs, size[0], size[1], now)
			}
		})
	}
}

// TestPlainCellsStay holds that a cell which is let by unchanged is one that nothing would change.
func TestPlainCellsStay(t *testing.T) {
	for cell, want := range map[string]string{
		"": "-", " ": "-", "a": "a", "a b": "a b", "a  b": "a b", " a": "a", "a ": "a", "a\tb": "a b", "a\nb": "a b", "任务": "任务", "a\x1b": `a\u001b`, "\x7f": `\u007f`, "\xff": `\xff`,
	} {
		if got := oneLine(cell); got != want || isPlainCell(cell) && got != cell {
			t.Errorf("%q becomes %q, want %q", cell, got, want)
		}
	}
}
