package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newSchemaCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON Schema of the YAML, for editors",
		Long: "Print the JSON Schema (draft 7) of the YAML of one kind, or of all. Editors complete the YAML by it and mark\n" +
			"what is wrong: in Visual Studio Code, with the extension YAML, begin the file with a comment such as\n" +
			"# yaml-language-server: $schema=gpuctl.schema.json",
		Example:           "  gpuctl schema > gpuctl.schema.json\n  gpuctl schema training",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE: func(_ *cobra.Command, args []string) error {
			kinds := workload.Kinds
			if len(args) == 1 {
				kind, _, _, err := workload.Lookup(args[0])
				if err != nil {
					return usageErrorf("%w", err)
				}
				kinds = []workload.Kind{kind}
			}
			encoder := json.NewEncoder(f.IO.Out)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(workload.JSONSchema(kinds...)); err != nil {
				return phrase.Errorf("writing the schema: %w", err)
			}
			return nil
		},
	}
}

func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := make([]string, len(workload.Kinds))
	for i, kind := range workload.Kinds {
		out[i] = string(kind)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
