package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// run runs the command in a folder with some files.
func run(t *testing.T, files map[string]string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	err = cmd.Execute()
	return out.String(), problems.String(), err
}

func TestReplay(t *testing.T) {
	files := map[string]string{
		"jobs.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n" +
			"2017-10-09 07:00:00,7200,8,57600,a\n2017-10-09 07:00:00,3600,16,57600,b\n2017-10-09 08:00:00,3600,1,3600,a\n",
		"bad.csv":       "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,7200,none,57600,a\n",
		"reference.csv": "nodes,policy,figure,value\n2,fifo,delay max,4\n",
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"all policies as a table": {
			args: []string{"--trace=jobs.csv", "--nodes=2"},
			want: []string{"2 nodes, queue delay in hours", "fifo        1.33", "backfill    0.67", "pod-by-pod"},
		},
		"beside the figures of others": {
			args: []string{"--trace=jobs.csv", "--nodes=2", "--policy=fifo", "--reference=reference.csv", "-o=markdown"},
			want: []string{"| fifo | delay max | 4 | 2.00 | -50.0 % |"},
		},
		"with chance between equal nodes, as JSON": {
			args: []string{"--trace=jobs.csv", "--nodes=2,3", "--policy=sjf", "--ties=1", "-o=json"},
			want: []string{`"nodes": 3`, `"policy": "sjf"`, `"ties": [`, `"neverStarted": 0`},
		},
		"intervals": {
			args: []string{"--trace=jobs.csv", "--nodes=2", "--policy=fifo", "--intervals=1"},
			want: []string{"of intervals of 90 %", "median width h"},
		},
		"intervals as JSON": {
			args: []string{"--trace=jobs.csv", "--nodes=2", "--policy=fifo", "--intervals=1", "-o=json"},
			want: []string{`"policy": "fifo"`, `"half": 2`, `"unknown": 1`},
		},
		"a bad row has its place": {args: []string{"--trace=bad.csv"}, err: `bad.csv: reading the trace: line 2: num_gpus "none"`},
		"no such file":            {args: []string{"--trace=none.csv"}, err: "reading --trace: open none.csv"},
		"an unknown policy":       {args: []string{"--policy=lifo"}, err: `reading --policy: policy "lifo" is unknown: use fifo, backfill`},
		"an unknown output":       {args: []string{"-o=xml"}, err: `--output is "xml", want table, markdown or json`},
		"a cluster too small":     {args: []string{"--trace=jobs.csv", "--nodes=1"}, err: "use at least 2 nodes"},
		"figures that are none":   {args: []string{"--trace=jobs.csv", "--reference=jobs.csv"}, err: "jobs.csv: reading the figures: the columns are"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := run(t, files, tc.args...)
			if (err != nil) != (tc.err != "") || !strings.Contains(stderr, tc.err) {
				t.Fatalf("error is %v, stderr %q, want %q", err, stderr, tc.err)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("output lacks %q:\n%s", want, stdout)
				}
			}
		})
	}
}

// TestThePageGetsTheTables writes them between the marks of a page, and nowhere else.
func TestThePageGetsTheTables(t *testing.T) {
	files := map[string]string{
		"jobs.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,7200,8,57600,a\n",
		"page.md":  "before\n" + tablesBegin + "old\n" + tablesEnd + "after\n",
		"bare.md":  "before\n",
	}
	args := []string{"--trace=jobs.csv", "--nodes=2", "--policy=fifo", "--page=page.md"}
	if _, stderr, err := run(t, files, args...); err != nil {
		t.Fatal(err, stderr)
	}
	page, err := os.ReadFile("page.md")
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "before\n"+tablesBegin, tablesEnd+"after\n"
	if got := string(page); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) || !strings.Contains(got, "| fifo |") || strings.Contains(got, "old") {
		t.Errorf("the page is\n%s", got)
	}
	if _, stderr, err := run(t, files, "--trace=jobs.csv", "--nodes=2", "--policy=fifo", "--page=bare.md"); err == nil {
		t.Errorf("a page without marks is written to: %s", stderr)
	}
}
