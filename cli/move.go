package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// editHelp explains what happens to a running job.
const editHelp = "A job that waits or is paused is changed at once; it queues again. Nothing changes of pods that run: a job\n" +
	"that has such is refused, unless --restart permits to start it over. Its YAML changes too, so that export\n" +
	"shows what the job asks now."

func newMoveCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("is in that pool already")}
	var pool string
	var restart, force bool
	v.resultText = func(submit.Result) phrase.Text { return phrase.Textf("moved to pool %s", pool) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		options.Restart = restart
		why, err := f.explainMisfit(ctx, c, ref, pool)
		switch {
		case err != nil:
			return submit.Result{}, err
		case len(why) > 0 && !force:
			return submit.Result{}, &cannotFitError{what: phrase.Textf(
				"%s can never run in pool %s: %s\nNothing was changed. Give --force to move it all the same", ref.Name, pool, why)}
		case len(why) > 0:
			f.IO.printErr("warning: %s", willWaitText(ref.Name, why))
		}
		return c.Move(ctx, ref, pool, options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "move JOB... --pool POOL",
		Short: "Move jobs into another pool",
		Long: "Move jobs into another pool. A job that no node of that pool could ever hold is refused, unless --force\n" +
			"is given.\n\n" + editHelp,
		Example: "  gpuctl move qwen2-sft --pool training-pool",
		Args:    needJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if pool == "" {
				return usageErrorf("give the pool to move to with --pool\nSee '%s --help'", cmd.CommandPath())
			}
			return v.runOnJobs(cmd.Context(), args)
		},
	})
	cmd.Flags().StringVar(&pool, "pool", "", "The pool to move to")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	cmd.Flags().BoolVar(&restart, "restart", false, "Start jobs over whose pods run")
	cmd.Flags().BoolVar(&force, "force", false, "Move jobs also where no node could ever hold them")
	return cmd
}

func priorityNames() []string {
	return []string{string(workload.PriorityHigh), string(workload.PriorityMedium), string(workload.PriorityLow)}
}

func newSetPriorityCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("has that priority already")}
	var priority string
	var restart bool
	v.resultText = func(submit.Result) phrase.Text { return phrase.Textf("has priority %s now", priority) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		options.Restart = restart
		return c.SetPriority(ctx, ref, workload.Priority(priority), options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "priority JOB... {high | medium | low}",
		Short: "Change the priority of jobs",
		Long: "Change the priority of jobs. Jobs of higher priority are placed first; high ones may stop others to get\n" +
			"their GPUs.\n\n" + editHelp,
		Example: "  gpuctl set priority qwen2-sft high",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageErrorf("%s needs the names of jobs, and one of %s\nSee '%s --help'",
					cmd.CommandPath(), strings.Join(priorityNames(), ", "), cmd.CommandPath())
			}
			last := len(args) - 1
			if priority = args[last]; !slices.Contains(priorityNames(), priority) {
				return usageErrorf("unknown priority %q%s: want one of %s",
					priority, spelling.DidYouMean(priority, priorityNames()), strings.Join(priorityNames(), ", "))
			}
			return v.runOnJobs(cmd.Context(), args[:last])
		},
	})
	cmd.ValidArgsFunction = completeJobThenPriority(f)
	cmd.Flags().BoolVar(&restart, "restart", false, "Start jobs over whose pods run")
	return cmd
}

// completeJobThenPriority completes the first argument with jobs, and later ones with priorities as well.
func completeJobThenPriority(f *Factory) completer {
	jobs := completeJobs(f)
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := jobs(cmd, args, word)
		if len(args) > 0 {
			names = append(priorityNames(), names...)
		}
		return names, directive
	}
}
