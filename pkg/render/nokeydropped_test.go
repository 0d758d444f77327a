package render

import (
	"bytes"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestNoKeyIsDropped changes every field of every kind, in documents that are made of the tables of fields. Each change
// must show in the objects, or be reported: a key that is accepted and does nothing deceives its author.
func TestNoKeyIsDropped(t *testing.T) {
	for _, kind := range workload.Kinds {
		for _, f := range workload.Fields(kind) {
			if f.Section {
				continue
			}
			t.Run(string(kind)+" "+f.Path, func(t *testing.T) {
				sample, err := workload.SampleOf(kind, f.Path)
				if err != nil {
					t.Fatal(err)
				}
				before, diagnostics := outcome(t, sample.With)
				if diagnostics.HasErrors() {
					t.Fatalf("the example of the field is refused:\n%s\nin\n%s", diagnostics, sample.With)
				}
				after, diagnostics := outcome(t, sample.Changed)
				if before == after && len(diagnostics) == 0 {
					t.Errorf("these give the same objects and no diagnostic:\n%s---\n%s", sample.With, sample.Changed)
				}
			})
		}
	}
}

// outcome returns the rendered objects without the copy of the document in them, and what was reported.
func outcome(t *testing.T, text string) (string, workload.Diagnostics) {
	t.Helper()
	docs, diagnostics := workload.Parse("test.yaml", []byte(text))
	var out bytes.Buffer
	for _, doc := range docs {
		doc.Upload = sampleUpload(doc)
		objects, _, err := Objects(doc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			delete(object.GetAnnotations(), names.AnnotationSubmitted)
		}
		if err := WriteYAML(&out, objects); err != nil {
			t.Fatal(err)
		}
	}
	return out.String(), diagnostics
}
