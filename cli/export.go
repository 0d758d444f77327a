package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/submit"
)

func newExportCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "export [job] JOB...",
		Short: "Print the YAML that jobs were submitted as",
		Long: "Print the YAML that jobs were submitted as, comments included, with what set and move changed since. It is\n" +
			"what create and apply take.",
		Example: "  gpuctl export qwen2-sft > train.yaml\n  gpuctl export job qwen2-sft | gpuctl create -n other -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && slices.Contains([]string{"job", "jobs"}, args[0]) {
				args = args[1:]
			}
			if err := needJobs(cmd, args); err != nil {
				return err
			}
			return runExport(cmd.Context(), f, args)
		},
		ValidArgsFunction: completeJobs(f),
	}
}

// runExport prints all documents or none: a truncated YAML stream looks complete.
func runExport(ctx context.Context, f *Factory, args []string) error {
	refs, err := f.jobRefs(args)
	if err != nil {
		return err
	}
	writer, err := f.newWriter()
	if err != nil {
		return err
	}
	text, err := exportDocuments(ctx, writer, refs)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f.IO.Out, text)
	return err
}

func exportDocuments(ctx context.Context, writer *submit.Client, refs []submit.Ref) (string, error) {
	var text string
	for i, ref := range refs {
		doc, err := writer.Document(ctx, ref)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text += "---\n"
		}
		text += doc.Source
	}
	return text, nil
}
