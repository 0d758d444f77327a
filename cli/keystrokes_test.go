package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/test/golden"
)

const (
	keystrokesPage = "../docs/compare-keystrokes.md"
	// keysAMinute is the pace of who types 40 words of five letters a minute.
	keysAMinute = 200
)

// way is how a job is submitted in one system: a section of the page.
type way struct {
	name string
	// blocks are what is typed, each with the language that it is in.
	blocks []block
}

type block struct{ language, text string }

func (w way) keys() int {
	keys := 0
	for _, b := range w.blocks {
		keys += utf8.RuneCountInString(b.text)
	}
	return keys
}

var fenced = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// waysOf are those of a page, in its order.
func waysOf(page string) []way {
	var out []way
	for _, section := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		w := way{name: name}
		for _, found := range fenced.FindAllStringSubmatch(text, -1) {
			w.blocks = append(w.blocks, block{language: found[1], text: found[2]})
		}
		out = append(out, w)
	}
	return out
}

// TestKeystrokes counts what the page says is typed, and compares its table: -update writes it.
func TestKeystrokes(t *testing.T) {
	data, err := os.ReadFile(keystrokesPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	ways := waysOf(page)
	if len(ways) != 19 {
		t.Fatalf("the page has %d ways, want 19", len(ways))
	}
	head, rest, _ := strings.Cut(page, "-->\n")
	_, tail, found := strings.Cut(rest, "<!-- end -->")
	if !found {
		t.Fatal("the page has no place for the table")
	}
	var table strings.Builder
	table.WriteString("\n| | keys | seconds to type | files to write |\n|---|---:|---:|---:|\n")
	for _, w := range ways {
		if w.keys() == 0 {
			t.Errorf("nothing is typed for %s", w.name)
		}
		files := 0
		for _, b := range w.blocks {
			if b.language == "yaml" {
				files++
			}
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d |\n", w.name, w.keys(), (w.keys()*60+keysAMinute-1)/keysAMinute, files)
	}
	want := head + "-->\n" + table.String() + "\n<!-- end -->" + tail
	if golden.Update() {
		if err := os.WriteFile(keystrokesPage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != want {
		t.Errorf("the table is not what is typed, want\n%s", table.String())
	}
}

// TestWhatThePageTypesIsRun: our own lines are in a script that runs them against a cluster, and the Job is one.
func TestWhatThePageTypesIsRun(t *testing.T) {
	data, err := os.ReadFile(keystrokesPage)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../test/integration/scripts/testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	var scripts strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	for _, w := range waysOf(string(data)) {
		for _, b := range w.blocks {
			if strings.HasPrefix(b.text, "gpuctl ") && !strings.Contains(scripts.String(), "\nexec "+b.text) {
				t.Errorf("no script runs %s", b.text)
			}
			if !strings.HasPrefix(w.name, "kubectl") || !strings.Contains(b.text, "kind: Job") {
				continue
			}
			var job batchv1.Job
			if err := yaml.UnmarshalStrict([]byte(b.text), &job); err != nil {
				t.Fatal(err)
			}
			if gpus := job.Spec.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 2 {
				t.Errorf("the Job of kubectl asks for %s GPUs", gpus.String())
			}
		}
	}
}
