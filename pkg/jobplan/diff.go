package jobplan

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// bookkeeping are the metadata fields that the API server fills in.
var bookkeeping = []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}

// Diff returns the changes of an object as a unified diff of YAML, without fields that the API server fills in. A nil before means a created object,
// a nil after a deleted one. It is "" if nothing differs.
//
// The submitted YAML of a job is left out unless nothing else differs: its author knows it anyway.
func Diff(before, after *unstructured.Unstructured) (string, error) {
	for _, withSource := range []bool{false, true} {
		old, err := objectYAML(before, withSource)
		if err != nil {
			return "", err
		}
		changed, err := objectYAML(after, withSource)
		if err != nil {
			return "", err
		}
		if out := diff.Diff("live/"+objectTitle(before, after), old, "applied/"+objectTitle(before, after), changed); out != nil {
			return string(dropFirstLine(out)), nil
		}
	}
	return "", nil
}

func objectTitle(before, after *unstructured.Unstructured) string {
	object := after
	if object == nil {
		object = before
	}
	return object.GetKind() + "/" + object.GetName()
}

// dropFirstLine removes the line "diff old new", which is not part of a unified diff.
func dropFirstLine(out []byte) []byte {
	return out[slices.Index(out, '\n')+1:]
}

// objectYAML formats an object for people; empty for a missing object.
func objectYAML(object *unstructured.Unstructured, withSource bool) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	shown := object.DeepCopy()
	delete(shown.Object, "status")
	shortenBinary(shown.Object)
	if metadata, ok := shown.Object["metadata"].(map[string]any); ok {
		for _, key := range bookkeeping {
			delete(metadata, key)
		}
	}
	annotations := maps.Clone(shown.GetAnnotations())
	delete(annotations, names.AnnotationSubmission)
	if !withSource {
		delete(annotations, names.AnnotationSubmitted)
		delete(annotations, names.AnnotationPresetFilled)
		delete(annotations, names.AnnotationPoolShare)
	}
	shown.SetAnnotations(annotations)
	out, err := yaml.Marshal(shown.Object)
	if err != nil {
		return nil, phrase.Errorf("encoding %s: %w", object.GetName(), err)
	}
	return out, nil
}

// shortenBinary replaces binary data by its size. Objects of ours with other data have other names.
func shortenBinary(object map[string]any) {
	data, _, _ := unstructured.NestedMap(object, "binaryData") // none if it is not such a map
	for key, value := range data {
		if text, ok := value.(string); ok {
			data[key] = fmt.Sprintf("%d bytes", base64.StdEncoding.DecodedLen(len(text))-strings.Count(text, "="))
		}
	}
	if len(data) > 0 {
		object["binaryData"] = data
	}
}
