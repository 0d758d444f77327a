package workload

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Skeleton returns a document of the kind to begin from. What nearly every author writes stands in it with examples, and
// all other fields as comments, each with what it does, in a language.
func Skeleton(kind Kind, language phrase.Language) (string, error) {
	w := &skeletonWriter{sampler: sampler{kind: kind, table: tableOf(kind)}, language: language}
	about := phrase.Of("A document of kind %s. Edit the examples, and delete the comments that you do not need.", kind)
	fmt.Fprintf(&w.out, "# %s\n", about.In(language))
	w.section(w.table, "", "")
	if w.err != nil {
		return "", fmt.Errorf("writing a skeleton of kind %s: %w", kind, w.err)
	}
	return w.out.String(), nil
}

type skeletonWriter struct {
	sampler
	out strings.Builder
	// language is that of the comments.
	language phrase.Language
}

// section writes fields; comment is what stands before each line of fields that do not hold.
func (w *skeletonWriter) section(fs fields, indent, comment string) {
	for _, f := range fs {
		if !f.allows(w.kind) || f.free || f.name == "spec" { // spec is another way to write what stands elsewhere
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
		fmt.Fprintf(&w.out, "%s# %s\n", indent, f.describedIn(w.language))
		w.field(f, indent, mark)
	}
}

// field writes one field, in one line where it holds no others.
func (w *skeletonWriter) field(f field, indent, mark string) {
	switch {
	case len(f.value.fields) > 0 && !f.value.list && f.example == "":
		fmt.Fprintf(&w.out, "%s%s%s:\n", indent, mark, f.name)
		w.section(f.value.fields, indent+"  ", mark)
	case len(f.value.fields) > 0:
		fmt.Fprintf(&w.out, "%s%s%s: %s\n", indent, mark, f.name, w.flow(w.valueOf(f)))
	default:
		fmt.Fprintf(&w.out, "%s%s%s: %s\n", indent, mark, f.name, f.example)
	}
}

// flow renders a value in one line.
func (w *skeletonWriter) flow(node *yaml.Node) string {
	node.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(node)
	if err != nil {
		w.err = err
	}
	return strings.TrimSpace(string(text))
}
