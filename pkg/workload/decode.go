package workload

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// decoder walks the nodes of one document and collects their problems.
type decoder struct {
	source *source
	kind   Kind
	// keys holds the key node of each field, by path; checks across fields report there.
	keys map[string]*yaml.Node
	// values holds the value nodes of the same fields.
	values map[string]*yaml.Node
	// placed lists the fields in document order.
	placed []placed
	// meant holds the paths of fields that an unknown key probably meant: they are misspelt, not missing.
	meant map[string]bool
}

func newDecoder(src *source, kind Kind) *decoder {
	return &decoder{source: src, kind: kind, keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{}, meant: map[string]bool{}}
}

// errorf reports an error at a node.
func (d *decoder) errorf(at *yaml.Node, format string, args ...any) {
	d.source.report(SeverityError, at.Line, at.Column, phrase.Of(format, args...))
}

// warnf reports a warning at a node.
func (d *decoder) warnf(at *yaml.Node, format string, args ...any) {
	d.source.report(SeverityWarning, at.Line, at.Column, phrase.Of(format, args...))
}

// has reports whether the document has the field, valid or not.
func (d *decoder) has(path string) bool {
	return d.keys[path] != nil
}

// means reports whether the document has the field, or a misspelt key for it.
func (d *decoder) means(path string) bool { return d.has(path) || d.meant[path] }

// valueAt returns the value of a field, or, if the document does not have it, the key of the nearest enclosing section. It is nil only if the
// document has none of them.
func (d *decoder) valueAt(path string) *yaml.Node {
	if node := d.values[path]; node != nil && !isNull(node) {
		return node
	}
	for path != "" {
		if node := d.keys[path]; node != nil {
			return node
		}
		cut := strings.LastIndexAny(path, ".[")
		path = path[:max(cut, 0)]
	}
	return d.keys[""]
}

// section decodes a mapping by its table of fields.
func (d *decoder) section(node *yaml.Node, path string, fs fields) {
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "%s must be a section with %s, not %s", pathOrDocument(path), alternatives(fs.names(d.kind)), nodeWord(node))
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		d.entry(node.Content[i], node.Content[i+1], path, fs, seen)
	}
	for _, f := range fs {
		if f.required && f.allows(d.kind) && seen[f.name] == nil && seen[f.instead] == nil && !d.meant[join(path, f.name)] {
			at := node
			if key := d.keys[path]; key != nil {
				at = key
			}
			d.errorf(at, "%s is missing%s", join(path, f.name), f.hint())
		}
	}
}

// hint shows how a field is written, for messages about a missing field.
func (f field) hint() phrase.Text {
	if f.example == "" {
		return nil
	}
	return phrase.Of(" (for example \"%s: %s\")", f.name, f.example)
}

// entry decodes one key of a section and its value.
func (d *decoder) entry(key, val *yaml.Node, path string, fs fields, seen map[string]*yaml.Node) {
	f, known := fs.find(key.Value)
	if !known && key.Kind == yaml.ScalarNode {
		f, known = fs.chosen(key.Value, val, d.kind)
	}
	switch first := seen[f.name]; {
	case key.Kind != yaml.ScalarNode || !known:
		d.unknown(key, path, fs)
		return
	case first != nil:
		d.errorf(key, "duplicate field %q in %s: line %d has %q already", key.Value, pathOrDocument(path), d.source.first+first.Line, first.Value)
		return
	case !f.allows(d.kind):
		seen[f.name] = key
		d.errorf(key, "%s is only for kind %s, this is kind %s", join(path, f.name), alternatives(f.only), d.kind)
		return
	}
	seen[f.name] = key
	full := join(path, f.name)
	d.keys[full], d.values[full] = key, val
	d.placed = append(d.placed, placed{field: f, path: full, section: path, key: key})
	holdsFields := len(f.value.fields) > 0
	switch {
	case holdsFields && !f.required && (isNull(val) || isEmpty(val)):
		d.warnf(key, "%s is empty and has no effect", full)
	case isNull(val):
		d.errorf(key, "%s has no value%s", full, f.hint())
	default:
		f.value.decode(d, val, full)
	}
}

// unknown reports a key that is not in the table, and what its author may have meant.
func (d *decoder) unknown(key *yaml.Node, path string, fs fields) {
	switch {
	case key.Kind != yaml.ScalarNode:
		d.errorf(key, "a key must be plain text, not %s", nodeWord(key))
	case key.Value == "<<":
		d.errorf(key, "merge keys (<<) are not supported: write the fields out")
	default:
		hint, name := formerly(path, key.Value)
		if len(hint) == 0 && len(d.source.diagnostics) < maxDiagnostics { // later problems are not shown, and the search for a hint is expensive
			if name = spelling.Nearest(key.Value, fs.names(d.kind)); name != "" {
				hint = phrase.Of(" (did you mean %q?)", name)
			}
		}
		if name != "" {
			d.meant[join(path, name)] = true
		}
		if len(hint) == 0 && len(d.source.diagnostics) < maxDiagnostics {
			hint = d.elsewhere(key.Value, path)
		}
		d.errorf(key, "unknown field %q in %s%s", clip(key.Value), pathOrDocument(path), hint)
	}
}

// elsewhere suggests the other section of the document in which the key belongs, if there is exactly one.
func (d *decoder) elsewhere(key, path string) phrase.Text {
	var found []string
	var meant string
	for _, f := range Fields(d.kind) {
		parent, last := splitPath(f.Path)
		if Spells(key, last) && parent != path && !strings.Contains(parent, "[]") {
			found, meant = append(found, parent), f.Path
		}
	}
	if len(found) != 1 {
		return nil
	}
	d.meant[meant] = true
	if found[0] == "" {
		return phrase.Of(" (it belongs at the top of the document)")
	}
	return phrase.Of(" (it belongs in %s)", found[0])
}

func splitPath(path string) (parent, last string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// list calls each for every entry of a sequence that is not null.
func (d *decoder) list(node *yaml.Node, path string, each func(i int, entry *yaml.Node, path string)) {
	if node.Kind != yaml.SequenceNode {
		d.errorf(node, "%s must be a list, not %s", path, nodeWord(node))
		return
	}
	for i, entry := range node.Content {
		entryPath := fmt.Sprintf("%s[%d]", path, i)
		d.keys[entryPath] = entry
		if isNull(entry) {
			d.errorf(entry, "%s has no value", entryPath)
			continue
		}
		each(i, entry, entryPath)
	}
}

// isSection reports whether an entry of a list, or the value of a field, is a mapping whose fields can be validated.
func (d *decoder) isSection(path string) bool {
	node := d.values[path]
	if node == nil {
		node = d.keys[path]
	}
	return node != nil && node.Kind == yaml.MappingNode
}

// isEmpty reports whether node is {} or [].
func isEmpty(node *yaml.Node) bool {
	return node.Kind != yaml.ScalarNode && len(node.Content) == 0
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func pathOrDocument(path string) phrase.Text {
	if path == "" {
		return phrase.Of("the document")
	}
	return phrase.Quote(path)
}

// nodeWord names the kind of a node in words for YAML authors.
func nodeWord(node *yaml.Node) phrase.Text {
	switch node.Kind {
	case yaml.MappingNode:
		return phrase.Of("a section")
	case yaml.SequenceNode:
		return phrase.Of("a list")
	default:
		return phrase.Of("%q", clip(node.Value))
	}
}

// clip truncates text for a message.
func clip(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// alternatives lists words to choose from: "a, b or c".
func alternatives[S ~string](words []S) phrase.Text {
	var out phrase.Text
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			out = out.And(" or ")
		case i > 0:
			out = out.And(", ")
		}
		out = out.With(phrase.Quote(string(word)))
	}
	return out
}

// oneOf is [joinAlternatives] in English, for programs and documents.
func oneOf[S ~string](words []S) string { return alternatives(words).String() }
