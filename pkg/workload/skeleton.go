package workload

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Skeleton returns a template document of the kind. Typical fields have examples, and all other fields are comments; each field is explained in a
// language.
func Skeleton(kind Kind, language phrase.Language) (string, error) {
	w := &skeletonWriter{sampler: sampler{kind: kind, table: fieldTable(kind)}, language: language}
	about := phrase.Textf("A document of kind %s. Edit the examples, and delete the comments that you do not need.", kind)
	fmt.Fprintf(&w.out, "# %s\n", about.Localize(language))
	w.writeSection(w.table, "", "")
	if w.err != nil {
		return "", fmt.Errorf("writing a skeleton of kind %s: %w", kind, w.err)
	}
	return w.out.String(), nil
}

type skeletonWriter struct {
	sampler
	out strings.Builder
	// language is the language of the comments.
	language phrase.Language
}

// writeSection writes fields; comment is the prefix of each line of inactive fields.
func (w *skeletonWriter) writeSection(fs fields, indent, comment string) {
	for _, f := range fs {
		if !f.allowsKind(w.kind) || f.free || f.name == "spec" { // spec is an alternative place for other fields
			continue
		}
		holds := comment == "" && (f.required || f.typical || f.name == "version")
		mark := comment
		if !holds && mark == "" {
			mark = "# "
		}
		if indent == "" && len(f.value.fields) > 0 {
			w.out.WriteString("\n")
		}
		fmt.Fprintf(&w.out, "%s# %s\n", indent, f.docText(w.language))
		w.writeField(f, indent, mark)
	}
}

// writeField writes one field, on one line if it has no subfields.
func (w *skeletonWriter) writeField(f field, indent, mark string) {
	switch {
	case len(f.value.fields) > 0 && !f.value.list && f.example == "":
		fmt.Fprintf(&w.out, "%s%s%s:\n", indent, mark, f.name)
		w.writeSection(f.value.fields, indent+"  ", mark)
	case len(f.value.fields) > 0:
		fmt.Fprintf(&w.out, "%s%s%s: %s\n", indent, mark, f.name, w.flowText(w.exampleNode(f)))
	default:
		fmt.Fprintf(&w.out, "%s%s%s: %s\n", indent, mark, f.name, f.example)
	}
}

// flowText formats a value on one line.
func (w *skeletonWriter) flowText(node *yaml.Node) string {
	node.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(node)
	if err != nil {
		w.err = err
	}
	return strings.TrimSpace(string(text))
}
