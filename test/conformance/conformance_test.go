package conformance

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/test/conformance/ours"
)

const root = "../.."

// kubernetesSources are those that are linked.
func kubernetesSources(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("finding the sources of Kubernetes: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestTheTestsThatAreLinkedAreWritten with nothing that starts another scheduler, and without a copy of the helpers that would.
func TestTheTestsThatAreLinkedAreWritten(t *testing.T) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "module")
	suites, err := Generate(kubernetesSources(t), absolute, into)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".", "scoring", "queueing", "prequeueinghint", "preemption/misc"} {
		if !slices.Contains(suites, want) {
			t.Errorf("suites %v, want %s among them", suites, want)
		}
	}
	made := 0
	err = filepath.WalkDir(into, func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		made += strings.Count(string(source), "ours.New(")
		for _, unwanted := range []string{`"k8s.io/kubernetes/test/integration/util"`, `"k8s.io/kubernetes/test/integration/scheduler`, " scheduler.New("} {
			if strings.Contains(string(source), unwanted) {
				t.Errorf("%s has %s", path, unwanted)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if made < 2 {
		t.Errorf("ours is made at %d places, want each where the helpers start a scheduler", made)
	}
	mod, err := os.ReadFile(filepath.Join(into, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"module " + Module + "\n", "replace g8s.host/gpu-scheduler => " + absolute + "\n"} {
		if !strings.Contains(string(mod), want) {
			t.Errorf("go.mod lacks %q", want)
		}
	}
}

const (
	helper = "package util\n\nimport (\n\t\"k8s.io/kubernetes/pkg/scheduler\"\n)\n\nvar s, _ = scheduler.New()\n"
	suite  = "package scheduler\n\nimport \"k8s.io/kubernetes/test/integration/util\"\n\nvar _ = util.S\n"
)

// TestTestsOfAnotherShapeAreRefused, as they would run with a scheduler that is not ours.
func TestTestsOfAnotherShapeAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ helper, suite, want string }{
		"as they are":                         {helper, suite, ""},
		"no helper makes a scheduler":         {strings.ReplaceAll(helper, "scheduler.New", "scheduler.Make"), suite, "nothing in test/integration/util makes a scheduler"},
		"a suite makes one itself":            {helper, suite + "var s, _ = scheduler.New()\n", "makes a scheduler itself"},
		"the helper has two lists of imports": {strings.Replace(helper, "\nvar", "\nimport (\n)\n\nvar", 1), suite, "one list of imports"},
		"it is no Go":                         {helper, "package", "reading the imports"},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := t.TempDir()
			for path, source := range map[string]string{"util/util.go": tc.helper, "scheduler/a/a_test.go": tc.suite} {
				file := filepath.Join(upstream, tests, path)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			suites, err := Generate(upstream, root, filepath.Join(t.TempDir(), "module"))
			switch {
			case tc.want == "" && (err != nil || !slices.Equal(suites, []string{"a"})):
				t.Errorf("suites %v and %v, want a", suites, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestWhatIsJudgedWrong: neither a test that begins to fail nor one that stops doing so passes unseen.
func TestWhatIsJudgedWrong(t *testing.T) {
	results := func(text string) Results {
		r := Results{}
		for _, field := range strings.Fields(text) {
			name, action, _ := strings.Cut(field, "=")
			r[Test{"s", strings.TrimPrefix(name, "whole")}] = Outcome{Action: action}
		}
		return r
	}
	known := []Difference{{Suite: "s", Tests: []string{"A/x"}, Reason: "why"}}
	for name, tc := range map[string]struct {
		ours, stock string
		want        []string
	}{
		"only what is known": {"A=fail A/x=fail A/y=pass B=pass whole=fail", "A=pass A/x=pass A/y=pass B=pass whole=pass", nil},
		"another subtest":    {"A=fail A/x=fail A/y=fail whole=fail", "A=pass A/x=pass A/y=pass whole=pass", []string{"s/A/y: it fails, and with stock it does not"}},
		"another test":       {"A=fail A/x=fail B=fail whole=fail", "A=pass A/x=pass B=pass whole=pass", []string{"s/B: it fails, and with stock it does not"}},
		"one that fails with stock as well": {"A=fail A/x=fail B=fail whole=fail", "A=pass A/x=pass B=fail whole=fail",
			[]string{"s/B: it fails, and with stock as well"}},
		"what is known passes": {"A=pass A/x=pass whole=pass", "A=pass A/x=pass whole=pass",
			[]string{"s/A/x: it does not fail any more (pass): take it off the list of differences"}},
		"what is known is skipped": {"A=pass A/x=skip whole=pass", "A=pass A/x=pass whole=pass",
			[]string{"s/A/x: it does not fail any more (skip): take it off the list of differences"}},
		"what is known fails with stock": {"A=fail A/x=fail whole=fail", "A=fail A/x=fail whole=fail",
			[]string{"s/A/x: it does not pass with stock either, so it is no difference"}},
		"what is known is gone": {"A=pass whole=pass", "A=pass whole=pass",
			[]string{"s/A/x: there is no such test any more: take it off the list of differences"}},
		"a part of what is refused": {"A=refuse B=pass whole=refuse", "A=pass A/x=pass B=pass whole=pass",
			[]string{"s/A/x: there is no such test any more: take it off the list of differences"}},
		"one was not run": {"A=fail A/x=fail whole=fail", "A=pass A/x=pass B=pass C=skip whole=pass", []string{"s/B: stock was asked, and ours was not"}},
		"goroutines are left": {"A=pass B=pass whole=fail", "A=pass B=pass whole=pass", []string{
			"s, after all of its tests have passed: it fails, and with stock it does not",
			"s/A/x: there is no such test any more: take it off the list of differences"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Judge(results(tc.ours), results(tc.stock), known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Judge(results("A=fail A/x=fail B=fail whole=fail"), nil, known); !slices.Equal(got, []string{"s/B: it fails"}) {
		t.Errorf("without stock: %v", got)
	}
	if got := unexpected(results("A=fail A/x=fail A/y=fail B=fail C=pass whole=fail"), "s", known); !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("to be run again: %v, want A and B", got)
	}
}

// TestWhatBecameOfTests is read from what go tool test2json writes; a later run of a test counts.
func TestWhatBecameOfTests(t *testing.T) {
	results := Results{}
	for _, run := range []string{`{"Action":"start","Package":"p"}
{"Action":"output","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Test":"A","Output":"    a_test.go:1: not here\n"}
{"Action":"output","Test":"A","Output":"--- SKIP: A (0.00s)\n"}
{"Action":"skip","Test":"A"}
{"Action":"fail","Test":"B"}
{"Action":"output","Output":"FAIL\n"}
{"Action":"fail"}
`, `{"Action":"pass","Test":"B"}
{"Action":"output","Output":"PASS\n"}
{"Action":"pass"}`} {
		if err := results.Read("s", strings.NewReader(run)); err != nil {
			t.Fatal(err)
		}
	}
	want := Results{{"s", "A"}: {skip, "a_test.go:1: not here"}, {"s", "B"}: {Action: pass}, {"s", ""}: {Action: pass}}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refused := `{"Action":"output","Test":"A/x","Output":"    u.go:7: ` + ours.Refusal + `it must not\n"}
{"Action":"fail","Test":"A/x"}
{"Action":"pass","Test":"A/y"}
{"Action":"fail","Test":"A"}
{"Action":"fail","Test":"B"}
{"Action":"output","Output":"FAIL\n"}
{"Action":"fail"}
`
	results = Results{}
	if err := results.Read("s", strings.NewReader(refused)); err != nil {
		t.Fatal(err)
	}
	want = Results{{"s", "A/x"}: {Action: refuse}, {"s", "A/y"}: {Action: pass}, {"s", "A"}: {Action: refuse}, {"s", "B"}: {Action: fail}, {"s", ""}: {Action: fail}}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("of a test that is refused (-want +got):\n%s", diff)
	}
	if err := results.Read("s", strings.NewReader("panic: no\n")); err == nil {
		t.Error("what is no event is passed over")
	}
}

// builtOf has scripts for programs, by suite.
func builtOf(t *testing.T, scripts map[string]string) *Built {
	t.Helper()
	root := t.TempDir()
	b := &Built{root: root, module: filepath.Join(root, "module"), programs: root, suites: slices.Sorted(maps.Keys(scripts)), upstream: "v1", Took: map[string]time.Duration{}}
	for suite, script := range scripts {
		err := errors.Join(os.MkdirAll(filepath.Join(root, "bin/conformance"), 0o755), os.MkdirAll(filepath.Join(b.module, "scheduler", suite), 0o755),
			os.WriteFile(b.program(suite), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestAProgramThatEndsInTheMiddleIsRunAgain, for nothing is known of the tests that it did not come to.
func TestAProgramThatEndsInTheMiddleIsRunAgain(t *testing.T) {
	b := builtOf(t, map[string]string{
		// It comes to its end when it is started for the second time, and b never does.
		"a": "echo '=== RUN   A'; if ! test -e started; then touch started; exit 255; fi; echo '--- PASS: A (0.00s)'; echo PASS",
		"b": "echo x >>started; echo '=== RUN   B'; echo '--- PASS: B (0.00s)'; echo '=== RUN   C'; exit 255",
	})
	results, err := b.Run(t.Context(), Stock, Rules{Again: 1})
	if !errors.Is(err, errCutShort) || !strings.Contains(err.Error(), "C was the last test to begin") || strings.Contains(err.Error(), "with stock, a:") {
		t.Errorf("%v, want an error about b alone, which ends in the middle of C each time", err)
	}
	if got := results[Test{"a", "A"}].Action; got != pass {
		t.Errorf("A: %q, want that it passed", got)
	}
	if times, err := os.ReadFile(filepath.Join(b.module, "scheduler/b/started")); err != nil || strings.Count(string(times), "x") != starts {
		t.Errorf("b was started so often: %q (%v), want %d times", times, err, starts)
	}
	if b.takeOver(Stock, "b", Results{}) || !b.takeOver(Stock, "a", Results{}) {
		t.Error("a later run goes on from a, and from nothing of b")
	}
}

// TestAProgramThatHangsIsStartedOnce: what it cost to see that it hangs, it would cost each time.
func TestAProgramThatHangsIsStartedOnce(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"in a test":         {"echo '=== RUN   A'; echo 'panic: test timed out after 20m0s'", "a: its program ended in the middle, after 20m: A was the last test to begin"},
		"before any of its": {"echo 'panic: test timed out after 20m0s'", "a: its program ended in the middle, after 20m: no test began"},
		"in a test that failed and is run again": {"if test -e started; then echo '=== RUN   A'; echo 'panic: test timed out after 20m0s'; else " +
			"echo '=== RUN   A'; echo '--- FAIL: A (0.00s)'; echo FAIL; fi", "a: its program ended in the middle, after 20m: A was the last test to begin"},
	} {
		t.Run(name, func(t *testing.T) {
			b := builtOf(t, map[string]string{"a": tc.script + "\necho x >>started; exit 2"})
			_, err := b.Run(t.Context(), Stock, Rules{Again: 3})
			if !errors.Is(err, errCutShort) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			want := 1 + strings.Count(tc.script, "FAIL;")
			if times, err := os.ReadFile(filepath.Join(b.module, "scheduler/a/started")); err != nil || strings.Count(string(times), "x") != want {
				t.Errorf("it was started so often: %q (%v), want %d times", times, err, want)
			}
		})
	}
}

func TestEachDifferenceHasAReason(t *testing.T) {
	known, err := Differences()
	if err != nil {
		t.Fatal(err)
	}
	if len(known) == 0 {
		return
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/benchmarks/conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range known {
		if entry := d.markdown(); !strings.Contains(string(page), entry) {
			t.Errorf("docs/benchmarks/conformance.md lacks the entry\n%s\nwhich make conformance writes", entry)
		}
	}
}
