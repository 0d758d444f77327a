package cli

import (
	"github.com/spf13/cobra"
)

// newRenderCmd is create --dry-run=client -o yaml under its own name.
func newRenderCmd(f *Factory) *cobra.Command {
	o := &createOptions{manifests: manifests{factory: f}, dryRun: dryRunClient, output: newOutput(outputYAML, outputJSON)}
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the Kubernetes objects that YAML files become",
		Long: "Print the Kubernetes objects that YAML files become, without asking a cluster. It is the same as\n" +
			"create --dry-run=client -o yaml.",
		Example: "  gpuctl render -f train.yaml\n  gpuctl render -f train.yaml | kubectl diff -f -",
		Args:    acceptFileArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runCreate(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	addOverrideFlags(cmd, &o.overrides)
	addWorkdirFlag(cmd.Flags(), &o.workdir)
	o.output.addTo(cmd)
	return cmd
}
