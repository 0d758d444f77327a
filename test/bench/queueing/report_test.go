package queueing

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/golden"
)

func phillyJobs(t *testing.T) []*trace.Job {
	t.Helper()
	jobs, err := Philly()
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func reportsOf(t *testing.T, jobs []*trace.Job, study Study) []Report {
	t.Helper()
	study.Racks = 4
	reports, err := study.Run(context.Background(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// TestFirstJobsOfPhilly replays the first 5,000 jobs on 72 nodes, which they crowd.
func TestFirstJobsOfPhilly(t *testing.T) {
	reports := reportsOf(t, phillyJobs(t)[:5000], Study{Nodes: []int{72}, Policies: Policies})
	var got bytes.Buffer
	for _, table := range Tables(reports, nil) {
		if err := table.WriteText(&got); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "first-5000.golden"), got.String())
}

// TestReference replays the whole trace and asks that every figure of the reference is met within 10 %, and that the
// page on the benchmark shows what came out.
func TestReference(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the whole trace 21 times")
	}
	data, err := os.ReadFile("testdata/reference.csv")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := ReadFigures(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	reports := reportsOf(t, phillyJobs(t), Study{Nodes: []int{80, 96, 64}, Policies: Policies})
	checkFigures(t, reports, theirs)
	page, err := os.ReadFile("../../../docs/benchmarks/queueing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range Tables(reports, theirs) {
		for _, row := range table.Rows {
			if !bytes.Contains(page, []byte(line(row)+"\n")) {
				t.Errorf("docs/benchmarks/queueing.md lacks %q under %q: run make bench-queueing", line(row), table.Title)
			}
		}
	}
}

func checkFigures(t *testing.T, reports []Report, theirs []Figure) {
	t.Helper()
	compared := map[string]bool{}
	for _, r := range reports {
		for _, f := range theirs {
			if f.Nodes != r.Nodes || f.Policy != r.Policy {
				continue
			}
			compared[fmt.Sprint(r.Nodes, r.Policy)] = true
			if by := Deviation(f.Of(r), f.Value); math.Abs(by) > 0.1 {
				t.Errorf("%d nodes, %s: %s is %.2f, the reference has %v, %+.1f %%", f.Nodes, f.Policy, f.Name, f.Of(r), f.Value, 100*by)
			}
		}
	}
	if len(compared) != 11 {
		t.Errorf("compared %d replays, want 6 on 80 nodes and 5 on 96", len(compared))
	}
}

func TestStudyByChanceIsTheSameForTheSameSeeds(t *testing.T) {
	study := Study{Nodes: []int{10}, Policies: Policies[:2], Ties: 3}
	first := reportsOf(t, crowd(500), study)
	if diff := cmp.Diff(first, reportsOf(t, crowd(500), study)); diff != "" {
		t.Errorf("the same study again (-first +second):\n%s", diff)
	}
	if len(first[0].Ties) != 3 {
		t.Errorf("%d replays by chance, want 3", len(first[0].Ties))
	}
	if cmp.Equal(first[1].Metrics, first[1].Ties[0]) && cmp.Equal(first[1].Ties[0], first[1].Ties[1]) {
		t.Error("chance between equal nodes makes no difference, where many are equal")
	}
}

func TestStudyRefusesWhatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		study Study
		want  string
	}{
		"no nodes":                   {Study{Nodes: []int{0}, Racks: 1, Policies: Policies}, "0 nodes in 1 racks"},
		"no racks":                   {Study{Nodes: []int{1}, Policies: Policies}, "1 nodes in 0 racks"},
		"fewer replays than none":    {Study{Nodes: []int{1}, Racks: 1, Policies: Policies, Ties: -1}, "-1 replays by chance"},
		"a job larger than they are": {Study{Nodes: []int{1}, Racks: 1, Policies: Policies}, "replaying fifo on 1 nodes: job 0 asks 9 GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.study.Run(context.Background(), jobsOf(request{0, 1, 9}))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestReadFiguresSaysWhereAndWhatIsWrong(t *testing.T) {
	const header = "# a comment\nnodes,policy,figure,value\n"
	for name, tc := range map[string]struct{ input, want string }{
		"nothing":             {"", "the columns are"},
		"another file":        {"a,b,c,d\n", `the columns are ["a" "b" "c" "d"]`},
		"no nodes":            {header + "0,fifo,delay avg,1\n", `line 3: nodes "0"`},
		"an unknown policy":   {header + "80,lifo,delay avg,1\n", `line 3: policy "lifo" is unknown: use fifo, backfill`},
		"an unknown figure":   {header + "80,fifo,delay,1\n", `line 3: figure "delay" is unknown: use completion avg`},
		"no number":           {header + "80,fifo,delay avg,x\n", `line 3: value "x"`},
		"a row cut short":     {header + "80,fifo\n", "line 3: wrong number of fields"},
		"more than was asked": {header + "80,fifo,delay avg,1,2\n", "line 3: wrong number of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadFigures(strings.NewReader(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestMarkdownComparesOnlyWhatWasReplayed(t *testing.T) {
	of := func(avg float64) Metrics { return Metrics{Delay: Spread{Avg: avg}} }
	reports := []Report{
		{Nodes: 80, Policy: "fifo", Metrics: of(11), Ties: []Metrics{of(10.5), of(12)}},
		{Nodes: 64, Policy: "easy", Metrics: of(20)},
	}
	theirs := []Figure{
		{Nodes: 80, Policy: "fifo", Name: "delay avg", Value: 10}, {Nodes: 80, Policy: "fifo", Name: "held percent"},
		{Nodes: 96, Policy: "fifo", Name: "delay avg", Value: 10}, {Nodes: 80, Policy: "sjf", Name: "delay avg", Value: 10},
	}
	var got bytes.Buffer
	for _, table := range Tables(reports, theirs) {
		if err := table.WriteMarkdown(&got); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "comparison.golden"), got.String())
}

func TestSelectKeepsTheOrderOfThePolicies(t *testing.T) {
	policies, err := Select([]string{"sjf", "fifo"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, policy := range policies {
		got = append(got, policy.Name)
	}
	if diff := cmp.Diff([]string{"fifo", "sjf"}, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}
