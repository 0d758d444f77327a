package queueing

import (
	"bytes"
	"context"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func phillyJobs(t *testing.T) []*Job {
	t.Helper()
	jobs, err := Philly()
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func reportOf(t *testing.T, jobs []*Job, nodes int, policy Named) Report {
	t.Helper()
	result, err := Replay(context.Background(), jobs, NewCluster(nodes, 4), policy.New())
	if err != nil {
		t.Fatal(err)
	}
	return Report{Nodes: nodes, Policy: policy.Name, Metrics: Measure(result)}
}

// TestFirstJobsOfPhilly replays the first 5,000 jobs on 72 nodes, which they crowd.
func TestFirstJobsOfPhilly(t *testing.T) {
	jobs := phillyJobs(t)[:5000]
	var reports []Report
	for _, policy := range Policies {
		reports = append(reports, reportOf(t, jobs, 72, policy))
	}
	var got bytes.Buffer
	for _, table := range Tables(reports) {
		if err := table.WriteText(&got); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "first-5000.golden", got.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestReference replays the whole trace and asks that every figure of the reference is met within 10 %.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.csv")
	if err != nil {
		t.Fatal(err)
	}
	figures, err := ReadFigures(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	jobs, reports := phillyJobs(t), map[string]Report{}
	for _, f := range figures {
		policy, err := Select([]string{f.Policy})
		if err != nil {
			t.Fatal(err)
		}
		key := f.Policy + "/" + fixed(float64(f.Nodes), 0)
		if _, ok := reports[key]; !ok {
			reports[key] = reportOf(t, jobs, f.Nodes, policy[0])
		}
		if by := Deviation(f.Of(reports[key]), f.Value); math.Abs(by) > 0.1 {
			t.Errorf("%d nodes, %s: %s is %.2f, the reference has %v, %+.1f %%", f.Nodes, f.Policy, f.Name, f.Of(reports[key]), f.Value, 100*by)
		}
	}
	if len(reports) != 11 {
		t.Errorf("compared %d replays, want 6 on 80 nodes and 5 on 96", len(reports))
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

func TestComparisonTakesOnlyWhatWasReplayed(t *testing.T) {
	reports := []Report{{Nodes: 80, Policy: "fifo", Metrics: Metrics{Delay: Spread{Avg: 11}}}}
	table := Comparison(reports, []Figure{
		{Nodes: 80, Policy: "fifo", Name: "delay avg", Value: 10}, {Nodes: 80, Policy: "fifo", Name: "held percent"},
		{Nodes: 96, Policy: "fifo", Name: "delay avg", Value: 10}, {Nodes: 80, Policy: "sjf", Name: "delay avg", Value: 10},
	})
	var got bytes.Buffer
	if err := table.WriteMarkdown(&got); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.golden", got.Bytes())
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
