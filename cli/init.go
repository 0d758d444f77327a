package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newInitCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "init KIND",
		Short: "Print a YAML file to begin from",
		Long: "Print a document of a kind to begin from: what nearly every author writes, with examples, and all other\n" +
			"fields as comments that say what they do.",
		Example:           "  gpuctl init training > train.yaml\n  gpuctl init quota",
		Args:              requireOneArg(phrase.Textf("one of the kinds %s", strings.Join(kindNames(), ", "))),
		ValidArgsFunction: completeKinds,
		RunE: func(_ *cobra.Command, args []string) error {
			kind, _, _, err := workload.Lookup(args[0])
			if err != nil {
				return usageErrorf("%w", err)
			}
			text, err := workload.Skeleton(kind, f.outputLanguage())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(f.IO.Out, text)
			return err
		},
	}
}

func kindNames() []string {
	out := make([]string, len(workload.Kinds))
	for i, kind := range workload.Kinds {
		out[i] = string(kind)
	}
	return out
}
