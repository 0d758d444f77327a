package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// FieldPlaces returns the places in Kubernetes' objects that a field determines, by its path in [workload.Fields], such as "Job spec.backoffLimit".
// It finds them by rendering documents that differ only in the field.
func FieldPlaces(kind workload.Kind, path string) ([]string, error) {
	sample, err := workload.SampleOf(kind, path)
	if err != nil {
		return nil, err
	}
	other := sample.Without
	if other == "" {
		other = sample.Changed
	}
	with, err := leafValues(sample.With)
	if err != nil {
		return nil, err
	}
	without, err := leafValues(other)
	if err != nil {
		return nil, err
	}
	var out []string
	for at, value := range with {
		if was, ok := without[at]; !ok || was != value {
			out = append(out, at.place)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// leaf is the position of a value: the index of the object, and the place in it.
type leaf struct {
	object int
	place  string
}

// sampleUpload returns a placeholder for the folder that a document names. Its digest depends on the name.
func sampleUpload(doc workload.Document) *workload.Upload {
	if doc.Job == nil || doc.Job.Workdir == "" {
		return nil
	}
	digest := sha256.Sum256([]byte(doc.Job.Workdir))
	return workload.NewUpload(hex.EncodeToString(digest[:]), digest[:])
}

// leafValues returns the values in the objects of a text by their positions. A text with errors has none.
func leafValues(text string) (map[leaf]string, error) {
	docs, _ := workload.Parse("sample", []byte(text))
	out := map[leaf]string{}
	for _, doc := range docs {
		doc.Upload = sampleUpload(doc)
		objects, _, err := Objects(doc, Options{})
		if err != nil {
			return nil, err
		}
		for i, object := range objects {
			annotations := maps.Clone(object.GetAnnotations())
			delete(annotations, names.AnnotationSubmitted)
			object.SetAnnotations(annotations)
			var tree map[string]any
			data, err := json.Marshal(object)
			if err == nil {
				err = json.Unmarshal(data, &tree)
			}
			if err != nil {
				return nil, phrase.Errorf("encoding %s: %w", object.GetName(), err)
			}
			collectLeaves(out, leaf{i, object.GetObjectKind().GroupVersionKind().Kind + " "}, tree)
		}
	}
	return out, nil
}

// collectLeaves adds the leaves of a tree to out.
func collectLeaves(out map[leaf]string, at leaf, node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			collectLeaves(out, leaf{at.object, appendStep(at.place, key)}, value)
		}
	case []any:
		for i, value := range node {
			collectLeaves(out, leaf{at.object, fmt.Sprintf("%s[%d]", at.place, i)}, value)
		}
	default:
		out[at] = fmt.Sprint(node)
	}
}

// appendStep appends a key to a place; a key with dots or slashes, such as a label, in brackets.
func appendStep(place, key string) string {
	for _, r := range key {
		if r == '.' || r == '/' {
			return place + "[" + key + "]"
		}
	}
	if place[len(place)-1] == ' ' {
		return place + key
	}
	return place + "." + key
}
