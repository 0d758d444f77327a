package jobplan

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// sourceIndent is the indentation of sections in a job's YAML.
const sourceIndent = 2

// SetField returns the YAML document of a job with one field changed and comments kept. The path is one of section and key, such as resources.pool,
// in any spelling; a missing section or key is added. The value is a string, a number, a list of strings, or a [yaml.Node].
func SetField(source, path string, value any) (string, error) {
	return editDocument(source, func(root *yaml.Node) error {
		node := root
		for _, key := range strings.Split(path, ".") {
			node = ensureChild(node, key)
		}
		if err := replaceNode(node, value); err != nil {
			return phrase.Errorf("writing %s into the job's YAML: %w", path, err)
		}
		return nil
	})
}

// SetVariable returns the YAML document of a job with one environment variable set, in the form that the document uses for its variables: a list of
// name and value, a list of NAME: value, or a section.
func SetVariable(source, name, value string) (string, error) {
	return editDocument(source, func(root *yaml.Node) error {
		given := literalNode(value)
		variables := ensureChild(ensureChild(root, "environment"), "env")
		resolveAlias(variables)
		if variables.Kind != yaml.SequenceNode {
			*ensureKey(variables, name) = *given
			return nil
		}
		for _, entry := range variables.Content {
			resolveAlias(entry)
			if entry.Kind != yaml.MappingNode {
				continue
			}
			if named := findValue(entry, "name"); named != nil && named.Value == name {
				*entry = *variableNode(name, given)
				return nil
			}
			if held := findValue(entry, name); held != nil {
				*held = *given
				return nil
			}
		}
		variables.Content = append(variables.Content, variableNode(name, given))
		return nil
	})
}

// editDocument changes the root mapping of a document.
func editDocument(source string, change func(root *yaml.Node) error) (string, error) {
	if err := safeyaml.Check([]byte(source), workload.UnfoldLimits); err != nil {
		return "", phrase.Errorf("reading the job's YAML: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(source), &root); err != nil {
		return "", phrase.Errorf("reading the job's YAML: %w", err)
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return "", phrase.Errorf("reading the job's YAML: it is no mapping")
	}
	stands := collectAliases(&root)
	if err := change(root.Content[0]); err != nil {
		return "", err
	}
	stands.restoreAnchors(&root)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(sourceIndent)
	if err := encoder.Encode(&root); err != nil {
		return "", phrase.Errorf("writing the job's YAML: %w", err)
	}
	return out.String(), nil
}

// replaceNode replaces the value of a node and keeps its comments. Lists are written on one line if their texts fit on one.
func replaceNode(node *yaml.Node, value any) error {
	var changed yaml.Node
	switch value := value.(type) {
	case *yaml.Node:
		changed = *value
	case string:
		changed = *literalNode(value)
	case []string:
		changed = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, text := range value {
			changed.Content = append(changed.Content, literalNode(text))
		}
	default:
		if err := changed.Encode(value); err != nil {
			return err
		}
	}
	if changed.Kind == yaml.SequenceNode && !slices.ContainsFunc(changed.Content, ofSeveralLines) {
		changed.Style = yaml.FlowStyle
	}
	quoteIndented(&changed)
	changed.HeadComment, changed.LineComment, changed.FootComment = node.HeadComment, node.LineComment, node.FootComment
	*node = changed
	return nil
}

// quoteIndented quotes multi-line texts whose first line is indented: the decoder cannot read the encoder's default form.
func quoteIndented(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && ofSeveralLines(node) && strings.HasPrefix(node.Value, " ") {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range node.Content {
		quoteIndented(below)
	}
}

func ofSeveralLines(node *yaml.Node) bool { return strings.Contains(node.Value, "\n") }

// EscapeDollars escapes the words of a command such that Kubernetes passes them on unchanged: Kubernetes replaces $$ by $.
func EscapeDollars(command []string) []string {
	out := make([]string, len(command))
	for i, word := range command {
		out[i] = strings.ReplaceAll(word, "$$", "$$$$")
	}
	return out
}

const stringTag = "!!str"

// literalNode returns a value that stays text, whatever it looks like.
func literalNode(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	return node
}

// variableNode returns an entry of a list of variables.
func variableNode(name string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle,
		Content: []*yaml.Node{literalNode("name"), literalNode(name), literalNode("value"), value}}
}

// findValue returns the value of a key of a mapping, nil if it is missing.
func findValue(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// ensureChild returns the value of a key of a mapping, in any spelling. It adds a missing key.
func ensureChild(mapping *yaml.Node, key string) *yaml.Node {
	resolveAlias(mapping)
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if workload.IsSpelling(mapping.Content[i].Value, key) {
			return mapping.Content[i+1]
		}
	}
	return ensureKey(mapping, key)
}

// ensureKey returns the value of a key of a mapping in its exact spelling. It adds a missing key.
func ensureKey(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		*mapping = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	if value := findValue(mapping, key); value != nil {
		return value
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: stringTag, Value: key}, value)
	return value
}
