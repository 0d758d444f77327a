package render

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/golden"
)

// TestExamples renders every file of examples/ and compares it with its golden file.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("finding examples: %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata", "examples", name+".golden.yaml"), renderFile(t, file))
		})
	}
}

// renderFile renders all documents of a file, with the warnings as comments above.
func renderFile(t *testing.T, file string) string {
	t.Helper()
	var objects []client.Object
	var out bytes.Buffer
	for _, doc := range parseFile(t, file) {
		rendered, warnings, err := Objects(doc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range warnings {
			fmt.Fprintf(&out, "# warning: %s\n", w)
		}
		objects = append(objects, rendered...)
	}
	if err := WriteYAML(&out, objects); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// parseFile parses a file that must be without any problem.
func parseFile(t *testing.T, file string) []workload.Document {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs, diagnostics := workload.Parse(filepath.Base(file), data)
	if len(diagnostics) > 0 {
		t.Fatalf("diagnostics:\n%s", diagnostics)
	}
	return docs
}
