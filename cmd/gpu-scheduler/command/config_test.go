package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkWith runs the command in a folder with these files and returns what it prints.
func checkWith(t *testing.T, files map[string]string, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	cmd := newConfigCommand()
	cmd.SetArgs(append([]string{"check"}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	err = cmd.Execute()
	return out.String(), problems.String(), err
}

func TestConfigCheck(t *testing.T) {
	old := strings.Replace(stockConfig, "/v1", "/v1beta3", 1)
	policy := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nstrategy: Spread\n"
	files := map[string]string{"stock.yaml": stockConfig, "old.yaml": old, "policy.yaml": policy, "typo.yaml": stockConfig + "paralelism: 1\n",
		"huge.yaml": strings.Repeat("#", largestConfig+1)}
	tests := map[string]struct {
		args      []string
		in        string
		out, fail string
	}{
		"what it changes":             {args: []string{"stock.yaml"}, out: "CHANGES against what is shipped"},
		"nothing":                     {args: []string{"stock.yaml", "--against=kube-scheduler"}, out: "It means the same as kube-scheduler's own defaults."},
		"an older version":            {args: []string{"old.yaml", "--against=stock.yaml"}, out: "It means the same as stock.yaml."},
		"and what to change in it":    {args: []string{"old.yaml"}, out: "warning: apiVersion kubescheduler.config.k8s.io/v1beta3 is read as"},
		"a policy":                    {args: []string{"policy.yaml"}, out: "- \"LeastFragmentation\"\n    + \"Spread\""},
		"the standard input":          {args: []string{"-"}, in: stockConfig, out: "PROFILE gpu-scheduler"},
		"JSON":                        {args: []string{"stock.yaml", "-o=json"}, out: `"against": "shipped"`},
		"a mistake":                   {args: []string{"typo.yaml"}, fail: `line 4: paralelism: unknown field (did you mean "parallelism"?)`},
		"a policy against a profile":  {args: []string{"policy.yaml", "--against=stock.yaml"}, fail: "give two of a kind"},
		"a file that is not there":    {args: []string{"none.yaml"}, fail: "none.yaml"},
		"one that is too large":       {args: []string{"huge.yaml"}, fail: "larger than"},
		"nothing to compare with":     {args: []string{"stock.yaml", "--against=none.yaml"}, fail: "--against none.yaml"},
		"no file":                     {fail: "want one FILE"},
		"an output that it cannot do": {args: []string{"stock.yaml", "-o=csv"}, fail: "want table or json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := checkWith(t, files, tc.in, tc.args...)
			if tc.fail != "" && (err == nil || !strings.Contains(stderr, tc.fail)) {
				t.Errorf("%v, %q, want %q", err, stderr, tc.fail)
			}
			if tc.fail == "" && (err != nil || !strings.Contains(stdout, tc.out)) {
				t.Errorf("%v, %q, want %q", err, stdout, tc.out)
			}
		})
	}
}

// TestTheSchedulerSaysWhichVersionToWrite starts the scheduler's own command, up to where it would need a cluster.
func TestTheSchedulerSaysWhichVersionToWrite(t *testing.T) {
	for version, want := range map[string]struct{ warning, fail string }{
		"v1":      {},
		"v1beta3": {warning: "write apiVersion: kubescheduler.config.k8s.io/v1,"},
		"v1beta2": {fail: "v1beta2 is not read: write apiVersion: kubescheduler.config.k8s.io/v1,"},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(stockConfig, "/v1", "/"+version, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		var warning string
		err := checkVersion(file, func(text string) { warning = text })
		if (warning == "") != (want.warning == "") || !strings.Contains(warning, want.warning) {
			t.Errorf("%s: warning %q, want %q", version, warning, want.warning)
		}
		if (err == nil) != (want.fail == "") || err != nil && !strings.Contains(err.Error(), want.fail) {
			t.Errorf("%s: %v, want %q", version, err, want.fail)
		}
	}
}
