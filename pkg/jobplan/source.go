package jobplan

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// sourceIndent is the number of blanks by which a section of a job's YAML is indented.
const sourceIndent = 2

// SetField returns the YAML document of a job with one field changed to a string or a number, comments kept. The path
// is one of section and key, such as resources.pool; a section or key that the document has not is added.
func SetField(source, path string, value any) (string, error) {
	if err := safeyaml.Check([]byte(source), workload.Unfolded); err != nil {
		return "", fmt.Errorf("reading the job's YAML: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(source), &root); err != nil {
		return "", fmt.Errorf("reading the job's YAML: %w", err)
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return "", fmt.Errorf("reading the job's YAML: it is no mapping")
	}
	node := root.Content[0]
	for _, key := range strings.Split(path, ".") {
		node = child(node, key)
	}
	var changed yaml.Node
	if err := changed.Encode(value); err != nil {
		return "", fmt.Errorf("writing %s into the job's YAML: %w", path, err)
	}
	changed.HeadComment, changed.LineComment, changed.FootComment = node.HeadComment, node.LineComment, node.FootComment
	*node = changed
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(sourceIndent)
	if err := encoder.Encode(&root); err != nil {
		return "", fmt.Errorf("writing the job's YAML: %w", err)
	}
	return out.String(), nil
}

// child returns the value of a key of a mapping, which it adds if it is not there.
func child(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		*mapping = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	return value
}
