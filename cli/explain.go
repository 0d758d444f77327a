package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newExplainCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "explain {KIND[.FIELD] | FIELD}",
		Short: "Explain a field of the YAML: its values, its default, and what it becomes",
		Long: "Explain a field of the YAML: what it does, which values it takes, its default, an example, and which fields of\n" +
			"Kubernetes' objects it decides on. Of a section it lists the fields. A field without a kind is explained for\n" +
			"the first kind that has it.",
		Example: "  gpuctl explain training\n  gpuctl explain resources.gpu-share\n" +
			"  gpuctl explain inference.service.autoscaling",
		Args:              exactlyOne(phrase.Of("a kind, or a field")),
		ValidArgsFunction: completeKinds,
		RunE:              func(_ *cobra.Command, args []string) error { return runExplain(f.IO.Out, args[0]) },
	}
}

func runExplain(out io.Writer, path string) error {
	kind, field, below, err := workload.Lookup(path)
	kinds := string(kind)
	if err != nil {
		having := workload.KindsWith(path)
		if len(having) == 0 {
			return usagef("%w", err)
		}
		if kind, field, below, err = workload.Lookup(string(having[0]) + "." + path); err != nil {
			return usagef("%w", err)
		}
		kinds = joined(having)
	}
	fmt.Fprintf(out, "KIND:     %s\n", kinds)
	if field.Path != "" {
		if err := explainField(out, kind, field); err != nil {
			return err
		}
	}
	if len(below) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nFIELDS:\n")
	for _, f := range below {
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		required := ""
		if f.Required {
			required = ", required"
		}
		fmt.Fprintf(out, "  %s  <%s%s>\n%s", name, f.Type, required, wrapped(f.Doc, "      "))
	}
	return nil
}

func explainField(out io.Writer, kind workload.Kind, field workload.Field) error {
	def := field.Default
	switch {
	case field.Required:
		def = "none, it is required"
	case def == "":
		def = "none"
	}
	fmt.Fprintf(out, "FIELD:    %s\nTYPE:     %s\nDEFAULT:  %s\n", field.Path, field.Type, def)
	if field.Example != "" {
		fmt.Fprintf(out, "EXAMPLE:  %s\n", field.Example)
	}
	fmt.Fprintf(out, "\n%s", wrapped(field.Doc, ""))
	if field.Section {
		return nil
	}
	places, err := render.Becomes(kind, field.Path)
	if err != nil {
		return phrase.Errorf("explaining %s: %w", field.Path, err)
	}
	if len(places) > 0 {
		fmt.Fprint(out, "\nBECOMES:\n")
	}
	for _, place := range places {
		fmt.Fprintf(out, "  %s\n", place)
	}
	return nil
}

// textWidth is that of a page of help.
const textWidth = 96

// wrapped breaks text into lines with an indent.
func wrapped(text, indent string) string {
	var out strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line) > len(indent) && len(line)+1+len(word) > textWidth {
			out.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	return out.String() + line + "\n"
}
