package main

import "go.yaml.in/yaml/v3"

// mappingField returns the value of a mapping's key, nil if it is missing.
func mappingField(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// textAt returns a value below a mapping, "" if it is missing.
func textAt(mapping *yaml.Node, path ...string) string {
	for _, key := range path {
		mapping = mappingField(mapping, key)
	}
	if mapping == nil {
		return ""
	}
	return mapping.Value
}

func sequenceItems(sequence *yaml.Node) []*yaml.Node {
	if sequence == nil {
		return nil
	}
	return sequence.Content
}

// setField sets the value of a mapping's key, in place or else at the end.
func setField(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, scalarNode(key), value)
}

func removeField(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return
		}
	}
}

func scalarNode(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }
