package render

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// WriteYAML writes objects as one YAML stream, with keys in alphabetical order, without status, and without the empty fields that encoding a Go value
// leaves.
func WriteYAML(w io.Writer, objects []client.Object) error {
	for i, object := range objects {
		text, err := marshalObject(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return phrase.Errorf("writing %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func marshalObject(object client.Object) ([]byte, error) {
	tree, err := Tree(object)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(tree)
}

// Tree returns an object as the maps and lists of its JSON, without status, and without the empty fields that encoding a Go value leaves.
func Tree(object client.Object) (map[string]any, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, phrase.Errorf("encoding %s: %w", object.GetName(), err)
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		return nil, phrase.Errorf("decoding %s: %w", object.GetName(), err)
	}
	delete(tree, "status")
	pruneEmpty(tree)
	return tree, nil
}

// prunableKeys lists the keys that mean nothing if they are empty. Not every empty section is meaningless: emptyDir: {} is a volume.
var prunableKeys = map[string]bool{"spec": true, "strategy": true, "resources": true, "creationTimestamp": true}

// pruneEmpty removes empty fields listed in [prunableKeys] from a tree of maps and lists.
func pruneEmpty(tree any) {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			pruneEmpty(value)
			if prunableKeys[key] && isEmpty(value) {
				delete(node, key)
			}
		}
	case []any:
		for _, value := range node {
			pruneEmpty(value)
		}
	}
}

// isEmpty reports whether a value is null, or a section that contains only empty sections.
func isEmpty(value any) bool {
	section, ok := value.(map[string]any)
	if !ok {
		return value == nil
	}
	for _, v := range section {
		if !isEmpty(v) {
			return false
		}
	}
	return true
}
