package workload

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The trees of samples are accessed by path; a list stands for its first entry.

func getValue(section *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Value == key {
			return section.Content[i+1]
		}
	}
	return nil
}

func setValue(section *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Value == key {
			section.Content[i+1] = value
			return
		}
	}
	section.Content = append(section.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// findParent returns the section that holds the last step of a path, and that step; nil if there is none.
func findParent(root *yaml.Node, path string) (section *yaml.Node, key string) {
	steps := strings.Split(strings.ReplaceAll(path, "[]", ""), ".")
	for i, step := range steps {
		if strings.HasPrefix(step, "<") {
			steps[i] = freeKey
		}
	}
	at := root
	for _, step := range steps[:len(steps)-1] {
		if at = getValue(at, step); at == nil {
			return nil, ""
		}
		if at.Kind == yaml.SequenceNode && len(at.Content) > 0 {
			at = at.Content[0]
		}
	}
	return at, steps[len(steps)-1]
}

func hasPath(root *yaml.Node, path string) bool {
	section, key := findParent(root, path)
	return section != nil && getValue(section, key) != nil
}

func removePath(root *yaml.Node, path string) {
	section, key := findParent(root, path)
	if section == nil {
		return
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Value == key {
			section.Content = slices.Delete(section.Content, i, i+2)
			return
		}
	}
}
