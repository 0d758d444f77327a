// Package rules has promtool, Prometheus' own judge, try every alert of manifests/monitoring: on series that should make it
// fire, and on those of a cluster that works. It asks for a runbook page of each.
package rules

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/golden"
)

const (
	promtool = "../../../bin/tools/promtool"
	runbooks = "../../../docs/runbooks"
)

// source is the rule file.
func source(t *testing.T) []byte {
	t.Helper()
	data, err := manifests.FS.ReadFile("monitoring/plain/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// alert is one alert of the file.
type alert struct {
	Alert  string            `json:"alert"`
	Expr   string            `json:"expr"`
	For    string            `json:"for"`
	Labels map[string]string `json:"labels"`
}

// read returns all alerts.
func read(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(source(t), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, slices.DeleteFunc(group.Rules, func(rule alert) bool { return rule.Alert == "" })...)
	}
	if len(all) < 20 {
		t.Fatalf("found %d alerts, so the tests would prove little", len(all))
	}
	return all
}

// alerts are the names of all alerts.
func alerts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, rule := range read(t) {
		all = append(all, rule.Alert)
	}
	return all
}

func TestRules(t *testing.T) {
	bounds.SkipInShort(t) // promtool is built for minutes
	tests, err := os.ReadFile("testdata/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range alerts(t) {
		for _, want := range []string{"- name: " + alert + "\n", "{eval_time: 380m, alertname: " + alert + ", exp_alerts: []}"} {
			if !strings.Contains(string(tests), want) {
				t.Errorf("testdata/rules_test.yaml has no %q", want)
			}
		}
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": source(t), "rules_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := filepath.Abs(promtool)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v (make monitoring-tools builds it)\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestEveryAlertHasItsPage holds docs/runbooks to the rules, and each page to its three parts.
func TestEveryAlertHasItsPage(t *testing.T) {
	pages, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		have = append(have, name)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"# " + name + "\n", "\n## How to look\n\n```console\n$ ", "\n## What to do\n\n- "} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q", page, part)
			}
		}
	}
	want := alerts(t)
	slices.Sort(want)
	if diff := gocmp.Diff(want, have); diff != "" {
		t.Errorf("pages of docs/runbooks (-alerts +pages):\n%s", diff)
	}
}

// TestDocs holds the table of docs/monitoring.md to the rules.
func TestDocs(t *testing.T) {
	const page, begin, end = "../../../docs/monitoring.md", "-update -->\n", "<!-- end of alerts -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	var table strings.Builder
	table.WriteString("| alert | severity | after | looks at |\n|---|---|---|---|\n")
	for _, rule := range read(t) {
		metrics := slices.Compact(slices.Sorted(slices.Values(metric.FindAllString(rule.Expr, -1))))
		metrics = slices.DeleteFunc(metrics, func(name string) bool { return name == "gpu_type" }) // which is a label
		fmt.Fprintf(&table, "| [%s](runbooks/%s.md) | %s | %s | `%s` |\n", rule.Alert, rule.Alert, rule.Labels["severity"],
			cmp.Or(rule.For, "at once"), strings.Join(metrics, "`, `"))
	}
	golden.Compare(t, page, before+begin+table.String()+end+after)
}

// metric finds the names of metrics in an expression. Ours, and those of others, have an underscore; up is the exception.
var metric = regexp.MustCompile(`\b(up|(gpu|gpuctl|scheduler|leader|DCGM)_\w+)\b`)
