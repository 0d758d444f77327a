package jobplan

import (
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Overrides change a job's YAML before it is submitted.
type Overrides struct {
	// Name is the new name of the job; empty keeps its name.
	Name string
	// Set holds PATH=VALUE, such as resources.gpu=8. The value is YAML.
	Set []string
	// Env holds NAME=VALUE, variables of the job's environment.
	Env []string
}

// IsEmpty reports whether there are no overrides.
func (o Overrides) IsEmpty() bool { return o.Name == "" && len(o.Set) == 0 && len(o.Env) == 0 }

// Apply returns the YAML document of a job of a kind with the overrides applied. An override with an unknown field or a value that is not YAML is an
// error; [workload.Parse] validates the value.
func (o Overrides) Apply(kind workload.Kind, source string) (string, error) {
	var err error
	if o.Name != "" {
		if source, err = SetField(source, "job.name", literalNode(o.Name)); err != nil {
			return "", err
		}
		if source, err = o.dropReplaced(source, "job.name"); err != nil {
			return "", err
		}
	}
	for _, set := range o.Set {
		if source, err = o.applySet(kind, source, set); err != nil {
			return "", err
		}
	}
	for _, variable := range o.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return "", phrase.Errorf("--env %s: write NAME=VALUE", variable)
		}
		if source, err = SetVariable(source, name, value); err != nil {
			return "", err
		}
	}
	return source, nil
}

func (o Overrides) applySet(kind workload.Kind, source, set string) (string, error) {
	path, value, ok := strings.Cut(set, "=")
	if !ok || path == "" {
		return "", phrase.Errorf("--set %s: write FIELD=VALUE, such as resources.gpu=8", set)
	}
	_, field, _, err := workload.Lookup(string(kind) + "." + path)
	if err := checkSettable(set, path, field, err); err != nil {
		return "", err
	}
	node, err := parseValue(value)
	if err != nil {
		return "", phrase.Errorf("--set %s: the value is no YAML: %w", set, err)
	}
	if source, err = SetField(source, field.Path, splitList(node, field)); err != nil {
		return "", err
	}
	return o.dropReplaced(source, field.Path)
}

// splitList converts a value with commas to a list, if the field accepts one value or a list: such values never contain commas.
func splitList(node *yaml.Node, field workload.Field) *yaml.Node {
	if node.Kind != yaml.ScalarNode || !strings.Contains(node.Value, ",") || !strings.HasSuffix(field.Type, "a list of them") {
		return node
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for word := range strings.SplitSeq(node.Value, ",") {
		list.Content = append(list.Content, literalNode(strings.TrimSpace(word)))
	}
	return list
}

// alternativeFields lists, for fields of a section, the alternative fields that they replace.
var alternativeFields = map[string]map[string][]string{
	"resources": exclusiveFields, "job": {"name": {"generate-name"}, "generate-name": {"name"}},
}

// dropReplaced removes the alternatives of a field that is set: whole GPUs if slices are set. If both are set, both stay, so that validation refuses
// them.
func (o Overrides) dropReplaced(source, path string) (string, error) {
	section, name, _ := strings.Cut(path, ".")
	others := slices.DeleteFunc(slices.Clone(alternativeFields[section][name]), func(other string) bool {
		return o.setsField(other) || other == "name" && o.Name != ""
	})
	if len(others) == 0 {
		return source, nil
	}
	return editDocument(source, func(root *yaml.Node) error {
		dropEntries(ensureChild(root, section), func(key string, _ *yaml.Node) bool {
			return slices.ContainsFunc(others, func(other string) bool { return workload.IsSpelling(key, other) })
		})
		return nil
	})
}

// checkSettable returns why a field cannot be set, nil if it can. found is the error of looking it up.
func checkSettable(set, path string, field workload.Field, found error) error {
	// A field that may be a word or a list as well, such as resources.mig, is set as a whole.
	isOneSection := field.Section && !strings.Contains(field.Type, "list")
	switch {
	case path == "environment.env" || strings.HasPrefix(path, "environment.env."):
		return phrase.Errorf("--set %s: variables are set with --env NAME=VALUE", set)
	case strings.Contains(path, "[") || strings.ContainsAny(field.Path, "[<>"):
		return phrase.Errorf("--set %s: the field is one of a list: change the file, or set all of the list", set)
	case found != nil:
		return phrase.Errorf("--set %s: %w", set, found)
	case isOneSection || slices.Contains([]string{"", "kind", "version"}, field.Path):
		return phrase.Errorf("--set %s: this is no field that can be set, such as resources.gpu", set)
	}
	return nil
}

// parseValue parses a value as YAML; an empty value is the empty text.
func parseValue(value string) (*yaml.Node, error) {
	if err := safeyaml.Check([]byte(value), workload.UnfoldLimits); err != nil {
		return nil, err
	}
	documents := yaml.NewDecoder(strings.NewReader(value))
	var document yaml.Node
	switch err := documents.Decode(&document); {
	case errors.Is(err, io.EOF):
		return literalNode(""), nil
	case err != nil:
		return nil, err
	case !errors.Is(documents.Decode(&yaml.Node{}), io.EOF):
		return nil, phrase.Errorf("it goes on behind the value")
	case len(document.Content) == 0:
		return literalNode(""), nil
	}
	node := document.Content[0]
	clearPosition(node)
	return node, nil
}

// clearPosition clears the position of the value, which refers to another text, and its comments.
func clearPosition(node *yaml.Node) {
	node.Line, node.Column = 0, 0
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	for _, below := range node.Content {
		clearPosition(below)
	}
}
