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
	placed []placedField
	// intended holds the paths of fields that an unknown key probably meant: they are misspelt, not missing.
	intended map[string]bool
}

func newDecoder(src *source, kind Kind) *decoder {
	return &decoder{source: src, kind: kind, keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{}, intended: map[string]bool{}}
}

// errorf reports an error at a node.
func (d *decoder) errorf(at *yaml.Node, format string, args ...any) {
	d.source.addDiagnostic(SeverityError, at.Line, at.Column, phrase.Textf(format, args...))
}

// warnf reports a warning at a node.
func (d *decoder) warnf(at *yaml.Node, format string, args ...any) {
	d.source.addDiagnostic(SeverityWarning, at.Line, at.Column, phrase.Textf(format, args...))
}

// hasField reports whether the document has the field, valid or not.
func (d *decoder) hasField(path string) bool {
	return d.keys[path] != nil
}

// intendsField reports whether the document has the field, or a misspelt key for it.
func (d *decoder) intendsField(path string) bool { return d.hasField(path) || d.intended[path] }

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

// decodeSection decodes a mapping by its table of fields.
func (d *decoder) decodeSection(node *yaml.Node, path string, fs fields) {
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "%s must be a section with %s, not %s", pathOrDocument(path), joinAlternatives(fs.fieldNames(d.kind)), nodeWord(node))
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		d.decodeEntry(node.Content[i], node.Content[i+1], path, fs, seen)
	}
	for _, f := range fs {
		if f.required && f.allowsKind(d.kind) && seen[f.name] == nil && seen[f.instead] == nil && !d.intended[joinPath(path, f.name)] {
			at := node
			if key := d.keys[path]; key != nil {
				at = key
			}
			d.errorf(at, "%s is missing%s", joinPath(path, f.name), f.exampleHint())
		}
	}
}

// exampleHint shows how a field is written, for messages about a missing field.
func (f field) exampleHint() phrase.Text {
	if f.example == "" {
		return nil
	}
	return phrase.Textf(" (for example \"%s: %s\")", f.name, f.example)
}

// decodeEntry decodes one key of a section and its value.
func (d *decoder) decodeEntry(key, val *yaml.Node, path string, fs fields, seen map[string]*yaml.Node) {
	f, known := fs.findField(key.Value)
	if !known && key.Kind == yaml.ScalarNode {
		f, known = fs.matchFreeField(key.Value, val, d.kind)
	}
	switch first := seen[f.name]; {
	case key.Kind != yaml.ScalarNode || !known:
		d.reportUnknown(key, path, fs)
		return
	case first != nil:
		d.errorf(key, "duplicate field %q in %s: line %d has %q already", key.Value, pathOrDocument(path), d.source.first+first.Line, first.Value)
		return
	case !f.allowsKind(d.kind):
		seen[f.name] = key
		d.errorf(key, "%s is only for kind %s, this is kind %s", joinPath(path, f.name), joinAlternatives(f.only), d.kind)
		return
	}
	seen[f.name] = key
	full := joinPath(path, f.name)
	d.keys[full], d.values[full] = key, val
	d.placed = append(d.placed, placedField{field: f, path: full, section: path, key: key})
	holdsFields := len(f.value.fields) > 0
	switch {
	case holdsFields && !f.required && (isNull(val) || isEmpty(val)):
		d.warnf(key, "%s is empty and has no effect", full)
	case isNull(val):
		d.errorf(key, "%s has no value%s", full, f.exampleHint())
	default:
		f.value.decode(d, val, full)
	}
}

// reportUnknown reports a key that is not in the table, and what its author may have meant.
func (d *decoder) reportUnknown(key *yaml.Node, path string, fs fields) {
	switch {
	case key.Kind != yaml.ScalarNode:
		d.errorf(key, "a key must be plain text, not %s", nodeWord(key))
	case key.Value == "<<":
		d.errorf(key, "merge keys (<<) are not supported: write the fields out")
	default:
		hint, name := formerHint(path, key.Value)
		if len(hint) == 0 && len(d.source.diagnostics) < maxDiagnostics { // later problems are not shown, and the search for a hint is expensive
			if name = spelling.Nearest(key.Value, fs.fieldNames(d.kind)); name != "" {
				hint = phrase.Textf(" (did you mean %q?)", name)
			}
		}
		if name != "" {
			d.intended[joinPath(path, name)] = true
		}
		if len(hint) == 0 && len(d.source.diagnostics) < maxDiagnostics {
			hint = d.suggestSection(key.Value, path)
		}
		d.errorf(key, "unknown field %q in %s%s", truncateText(key.Value), pathOrDocument(path), hint)
	}
}

// suggestSection suggests the other section of the document in which the key belongs, if there is exactly one.
func (d *decoder) suggestSection(key, path string) phrase.Text {
	var found []string
	var meant string
	for _, f := range Fields(d.kind) {
		parent, last := splitPath(f.Path)
		if IsSpelling(key, last) && parent != path && !strings.Contains(parent, "[]") {
			found, meant = append(found, parent), f.Path
		}
	}
	if len(found) != 1 {
		return nil
	}
	d.intended[meant] = true
	if found[0] == "" {
		return phrase.Textf(" (it belongs at the top of the document)")
	}
	return phrase.Textf(" (it belongs in %s)", found[0])
}

func splitPath(path string) (parent, last string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// decodeList calls each for every entry of a sequence that is not null.
func (d *decoder) decodeList(node *yaml.Node, path string, each func(i int, entry *yaml.Node, path string)) {
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
		return phrase.Textf("the document")
	}
	return phrase.Quote(path)
}

// nodeWord names the kind of a node in words for YAML authors.
func nodeWord(node *yaml.Node) phrase.Text {
	switch node.Kind {
	case yaml.MappingNode:
		return phrase.Textf("a section")
	case yaml.SequenceNode:
		return phrase.Textf("a list")
	default:
		return phrase.Textf("%q", truncateText(node.Value))
	}
}

// truncateText truncates text for a message.
func truncateText(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// joinAlternatives lists words to choose from: "a, b or c".
func joinAlternatives[S ~string](words []S) phrase.Text {
	var out phrase.Text
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			out = out.Addf(" or ")
		case i > 0:
			out = out.Addf(", ")
		}
		out = out.Add(phrase.Quote(string(word)))
	}
	return out
}

// englishAlternatives is [joinAlternatives] in English, for programs and documents.
func englishAlternatives[S ~string](words []S) string { return joinAlternatives(words).String() }
