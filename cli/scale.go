package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// maxReplicas is the maximum that the YAML of a job accepts.
const maxReplicas = 1000

func newScaleCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("has so many replicas already")}
	replicas := -1
	v.resultText = func(submit.Result) phrase.Text { return phrase.Textf("has %s now", countText(replicas, "replica")) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		return c.Scale(ctx, ref, int32(replicas), options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "scale JOB... --replicas N",
		Short: "Change how many copies of a service run",
		Long: "Change how many copies of an inference or compute job run. Those that are there go on; its YAML changes too, so\n" +
			"that export shows how many there are now. To have none for a while, pause the job.",
		Example: "  gpuctl scale chat --replicas 4",
		Args:    needJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if replicas < 1 || replicas > maxReplicas {
				return usageErrorf("give with --replicas how many are to run, from 1 to %d; gpuctl pause stops all\nSee '%s --help'", maxReplicas, cmd.CommandPath())
			}
			return v.runOnJobs(cmd.Context(), args)
		},
	})
	cmd.Flags().IntVar(&replicas, "replicas", -1, fmt.Sprintf("How many copies are to run, from 1 to %d", maxReplicas))
	return cmd
}
