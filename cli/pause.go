package cli

import (
	"context"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newPauseCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("is paused already")}
	v.resultText = func(r submit.Result) phrase.Text { return phrase.Textf("paused").Add(releasedText(r)) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		return c.Pause(ctx, ref, v.stepOptions())
	}
	return v.addTo(&cobra.Command{
		Use:   "pause JOB...",
		Short: "Stop jobs for a while, and release their GPUs",
		Long: "Stop jobs for a while, and release their GPUs: other jobs may take them. The pods of a paused job are\n" +
			"deleted, so a training job continues from its last checkpoint when it is resumed, or from the beginning if\n" +
			"it writes none.",
		Example: "  gpuctl pause qwen2-sft\n  gpuctl pause notebook/lab",
	})
}

func newCancelCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("is cancelled already")}
	v.resultText = func(r submit.Result) phrase.Text { return phrase.Textf("cancelled").Add(releasedText(r)) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		return c.Cancel(ctx, ref, v.stepOptions())
	}
	return v.addTo(&cobra.Command{
		Use:   "cancel JOB...",
		Short: "End jobs for good, and keep their record",
		Long: "End jobs for good, and release their GPUs. Unlike delete, it keeps the job: get and describe still show it,\n" +
			"export returns its YAML, and retry starts it over.",
		Example: "  gpuctl cancel qwen2-sft\n  gpuctl retry qwen2-sft",
	})
}

func newRetryCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f}
	var allTasks bool
	var overrides jobplan.Overrides
	v.resultText = func(r submit.Result) phrase.Text { return phrase.Textf("started over").Add(waitingText(r)) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		options.AllTasks, options.Overrides = allTasks, overrides
		return c.Retry(ctx, ref, options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "retry JOB...",
		Short: "Start jobs over that have failed, succeeded or been cancelled",
		Long: "Start jobs over that have failed, succeeded or been cancelled, as their YAML says. Claims made with a job\n" +
			"keep their data. The pods of the earlier run go, and with them its logs.\n\n" +
			"All tasks of an array run again, those that succeeded included: Kubernetes starts a Job over as a whole.\n" +
			"If some have succeeded, that has to be permitted with --all-tasks.\n\n" +
			"--set and --env change the YAML of a training job on the way, such as its memory after it ran out of it. The\n" +
			"job keeps the change.",
		Example: "  gpuctl retry qwen2-sft\n" +
			"  gpuctl retry qwen2-sft --set resources.memory=128Gi\n" +
			"  gpuctl retry qwen2-sft --set resources.time-limit=8h --env LR=1e-4\n" +
			"  gpuctl retry sweep --all-tasks",
	})
	cmd.Flags().BoolVar(&allTasks, "all-tasks", false, "Run all tasks of an array again, though some have succeeded")
	cmd.Flags().StringArrayVar(&overrides.Set, "set", nil, "Set a field of the job: FIELD=VALUE, such as resources.gpu=8; may be repeated")
	cmd.Flags().StringArrayVar(&overrides.Env, "env", nil, "Set an environment variable of the job: NAME=VALUE; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("set", completeAssignments("", workload.KindTraining))
	return cmd
}
