package workload

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// freeKey is the key that samples use where authors choose one.
const freeKey = "data"

// Sample is a small document about one field, in three versions. Explanations and tests compare what they render to.
type Sample struct {
	// Without lacks the field. It is "" if the field cannot be left out.
	Without string
	// With has the field with its example value, and Changed has another value.
	With, Changed string
}

// SampleOf returns the sample of a field, by its path in [Fields]. Sections have no samples.
func SampleOf(kind Kind, path string) (Sample, error) {
	f, ok := fieldAt(kind, path)
	if !ok || len(f.value.fields) > 0 {
		return Sample{}, fmt.Errorf("finding a sample: kind %s has no field %q that holds a value", kind, path)
	}
	s := &sampler{kind: kind, table: fieldTable(kind)}
	with := s.sampleDocument(path, f.example)
	out := Sample{With: with, Changed: s.sampleDocument(path, otherValue(f))}
	if !f.required {
		out.Without = s.sampleDocument(path, "")
	}
	if s.err != nil {
		return Sample{}, fmt.Errorf("writing a sample of %s %s: %w", kind, path, s.err)
	}
	return out, nil
}

// fieldAt finds a field by its path in [Fields].
func fieldAt(kind Kind, path string) (field, bool) {
	fs := fieldTable(kind)
	var found field
	for _, name := range strings.Split(strings.ReplaceAll(path, "[]", ""), ".") {
		i := slices.IndexFunc(fs, func(f field) bool { return f.name == name && f.allowsKind(kind) })
		if i < 0 {
			return field{}, false
		}
		found, fs = fs[i], fs[i].value.fields
	}
	return found, true
}

// sampler writes documents of a kind.
type sampler struct {
	kind  Kind
	table fields
	// err is the first error in a table, if any.
	err error
}

// sampleDocument returns a small document with the field at a path, or, if value is "", with everything that the field needs but without the field.
func (s *sampler) sampleDocument(path, value string) string {
	root := s.smallSection(s.table)
	s.setPath(root, path, value)
	if value == "" {
		removePath(root, path)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		s.err = err
	}
	return out.String()
}

// smallSection returns a section with the required and typical fields, and their examples.
func (s *sampler) smallSection(fs fields) *yaml.Node {
	section := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fs {
		if f.allowsKind(s.kind) && (f.required || f.typical) {
			setValue(section, f.name, s.exampleNode(f))
		}
	}
	return section
}

// exampleNode returns the example of a field, or a small section.
func (s *sampler) exampleNode(f field) *yaml.Node {
	if f.example != "" {
		return s.parseValue(f.example)
	}
	section := s.smallSection(f.value.fields)
	if f.value.list {
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{section}}
	}
	return section
}

// setPath sets the field at a path, and creates the sections around it.
func (s *sampler) setPath(root *yaml.Node, path, value string) {
	at, fs, section := root, s.table, ""
	steps := strings.Split(strings.ReplaceAll(path, "[]", ""), ".")
	for i, name := range steps {
		f := fs[slices.IndexFunc(fs, func(f field) bool { return f.name == name })]
		given := ""
		if i == len(steps)-1 {
			given = value
		}
		at = s.setField(root, at, section, f, given)
		fs, section = f.value.fields, joinPath(section, f.name)
		if f.value.list {
			section += "[]"
		}
	}
}

// setField sets one field of a section, to its example if no value is given and it has none. It removes excluded fields and adds needed ones. It
// returns the section that the field is, for a list the first one.
func (s *sampler) setField(root, at *yaml.Node, section string, f field, value string) *yaml.Node {
	for _, other := range s.excludedBy(section, f) {
		removePath(root, other)
	}
	name := f.name
	if f.free {
		name = freeKey
	}
	node := getValue(at, name)
	switch {
	case value != "":
		node = s.parseValue(value)
	case node == nil:
		node = s.exampleNode(f)
	}
	setValue(at, name, node)
	for _, need := range f.needs {
		if need = relativePath(section, need); !hasPath(root, need) {
			needed, _ := fieldAt(s.kind, need)
			s.setPath(root, need, needed.example)
		}
	}
	if node.Kind == yaml.SequenceNode && len(node.Content) > 0 {
		return node.Content[0]
	}
	return node
}

// excludedBy returns the paths of fields that exclude f or that f excludes.
func (s *sampler) excludedBy(section string, f field) []string {
	var out []string
	path := joinPath(section, f.name)
	for _, name := range f.excludes {
		out = append(out, relativePath(section, name))
	}
	walkFields(s.table, s.kind, "", func(other string, o field) {
		parent, _ := splitPath(other)
		if slices.ContainsFunc(o.excludes, func(name string) bool { return relativePath(parent, name) == path }) {
			out = append(out, other)
		}
	})
	return out
}

// parseValue parses a value of the tables.
func (s *sampler) parseValue(text string) *yaml.Node {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil || len(node.Content) == 0 {
		s.err = fmt.Errorf("parsing %q: %w", text, err)
		return &node
	}
	return node.Content[0]
}

// otherValue returns a value of the field that differs from its example.
func otherValue(f field) string {
	words := f.value.words
	digits := strings.IndexFunc(f.example, func(r rune) bool { return r >= '0' && r <= '9' })
	switch {
	case len(words) > 1 && f.example == words[0]:
		return words[1]
	case len(words) > 0:
		return words[0] + strings.Repeat("x", max(0, 2-len(words)))
	case f.example == "true":
		return "false"
	case strings.HasPrefix(f.example, "["):
		return "[x]"
	case strings.HasPrefix(f.example, `"`):
		return `"other text"`
	case digits == 0: // an amount
		end := strings.IndexFunc(f.example+" ", func(r rune) bool { return r < '0' || r > '9' })
		n, _ := strconv.Atoi(f.example[:end])
		return strconv.Itoa(n+1) + f.example[end:]
	}
	return f.example + "x"
}
