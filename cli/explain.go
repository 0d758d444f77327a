package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/cli/monospace"
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
		Args:              requireOneArg(phrase.Textf("a kind, or a field")),
		ValidArgsFunction: completeFields,
		RunE:              func(_ *cobra.Command, args []string) error { return runExplain(f.IO, args[0]) },
	}
}

func runExplain(io IOStreams, path string) error {
	kind, field, below, err := workload.Lookup(path)
	kinds := string(kind)
	if err != nil {
		having := workload.KindsWith(path)
		if len(having) == 0 {
			return usageErrorf("%w", err)
		}
		if kind, field, below, err = workload.Lookup(string(having[0]) + "." + path); err != nil {
			return usageErrorf("%w", err)
		}
		kinds = joinWords(having)
	}
	writeExplained(io, phrase.Textf("KIND"), kinds)
	if field.Path != "" {
		if err := explainField(io, kind, field); err != nil {
			return err
		}
	}
	if len(below) == 0 {
		return nil
	}
	language := io.outputLanguage()
	fmt.Fprintf(io.Out, "\n%s\n", phrase.Textf("%s:", phrase.Textf("FIELDS")).Localize(language))
	for _, f := range below {
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		required := ""
		if f.Required {
			required = phrase.Textf(", required").Localize(language)
		}
		fmt.Fprintf(io.Out, "  %s  <%s%s>\n%s", name, f.TypeIn(language), required, wrapText(language.Translate(f.Doc), "      "))
	}
	return nil
}

// writeExplained writes a label and its value.
func writeExplained(io IOStreams, label phrase.Text, value string) {
	head := phrase.Textf("%s:", label).Localize(io.outputLanguage())
	fmt.Fprintf(io.Out, "%s%s %s\n", head, strings.Repeat(" ", max(explainWidth-1-monospace.Columns(head), 0)), value)
}

// explainWidth is the column at which values begin.
const explainWidth = 10

func explainField(io IOStreams, kind workload.Kind, field workload.Field) error {
	language := io.outputLanguage()
	def := language.Translate(field.Default)
	switch {
	case field.Required:
		def = phrase.Textf("none, it is required").Localize(language)
	case def == "":
		def = phrase.Textf("none").Localize(language)
	}
	writeExplained(io, phrase.Textf("FIELD"), field.Path)
	writeExplained(io, phrase.Textf("VALUES"), field.TypeIn(language))
	writeExplained(io, phrase.Textf("DEFAULT"), def)
	if field.Example != "" {
		writeExplained(io, phrase.Textf("EXAMPLE"), field.Example)
	}
	fmt.Fprintf(io.Out, "\n%s", wrapText(language.Translate(field.Doc), ""))
	if field.Section {
		return nil
	}
	places, err := render.FieldPlaces(kind, field.Path)
	if err != nil {
		return phrase.Errorf("explaining %s: %w", field.Path, err)
	}
	if len(places) > 0 {
		fmt.Fprintf(io.Out, "\n%s\n", phrase.Textf("%s:", phrase.Textf("BECOMES")).Localize(language))
	}
	for _, place := range places {
		fmt.Fprintf(io.Out, "  %s\n", place)
	}
	return nil
}

// textWidth is the width of a help page.
const textWidth = 96

// wrapText breaks text into lines with an indent.
func wrapText(text, indent string) string {
	return wrapLine(indent+text, textWidth, len(indent)) + "\n"
}
