package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newSetCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set {priority | resources | preset} NAME... VALUE...",
		Short:   "Change what jobs ask, and what is prepared for them",
		Example: "  gpuctl set priority qwen2-sft high\n  gpuctl set resources qwen2-sft gpu=4 memory=64Gi",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	cmd.AddCommand(newSetPriorityCmd(f), newSetResourcesCmd(f), newSetPresetCmd(f))
	return cmd
}

// sectionResources is the section of a job's YAML with the resources of its pods.
const sectionResources = "resources."

func newSetResourcesCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("asks for that already")}
	var sets []string
	var restart bool
	v.resultText = func(submit.Result) phrase.Text { return phrase.Textf("asks for %s now", strings.Join(sets, ", ")) }
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		options.Restart = restart
		return c.Rewrite(ctx, ref, func(doc workload.Document) (string, error) {
			refill, err := v.setResourceFields(ctx, doc, sets)
			v.note = refill.Message()
			return refill.Source, err
		}, options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "resources JOB... FIELD=VALUE...",
		Short: "Change what jobs ask for: GPUs, CPU, memory, pool, time limit",
		Long: "Change what jobs ask for. A FIELD is one of resources in the job's YAML, which\n" +
			"gpuctl explain training.resources lists. Slices (mig) stand in the place of whole GPUs (gpu,\n" +
			"gpu-share): setting one drops the other. Another preset fills the fields again that the one\n" +
			"before had filled and nobody has changed since; all others stay. What it fills and drops is told.\n\n" + editHelp,
		Example: "  gpuctl set resources qwen2-sft gpu=4 memory=64Gi\n  gpuctl set resources qwen2-sft gpu-type=A100-80G --restart",
		RunE: func(cmd *cobra.Command, args []string) error {
			var jobs []string
			sets = nil
			for _, arg := range args {
				if strings.Contains(arg, "=") {
					sets = append(sets, arg)
				} else {
					jobs = append(jobs, arg)
				}
			}
			if len(jobs) == 0 || len(sets) == 0 {
				return usageErrorf("%s needs the names of jobs, and FIELD=VALUE such as gpu=4\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return v.runOnJobs(cmd.Context(), jobs)
		},
	})
	cmd.Flags().BoolVar(&restart, "restart", false, "Start jobs over whose pods run")
	cmd.ValidArgsFunction = completeJobThenFields(f)
	return cmd
}

// setResourceFields returns the changed YAML of a job that requests other resources.
func (v *jobVerb) setResourceFields(ctx context.Context, doc workload.Document, sets []string) (jobplan.Refill, error) {
	full := make([]string, len(sets))
	for i, set := range sets {
		full[i] = sectionResources + strings.TrimPrefix(set, sectionResources)
	}
	overrides := jobplan.Overrides{Set: full}
	source, err := overrides.Apply(doc.Kind, doc.Source)
	if err != nil {
		return jobplan.Refill{}, usageErrorf("%w", err)
	}
	refill, err := v.refillPreset(ctx, doc, source, overrides)
	if isA[*jobplan.PresetError](err) {
		return refill, &conflictError{what: phrase.FromError(err)}
	}
	if err != nil {
		return refill, err
	}
	_, err = v.factory.parseWritten(refill.Source, true)
	return refill, err
}

// refillPreset returns the changed YAML of a job that gets another preset. Fields that the user has set by overrides always stay.
func (v *jobVerb) refillPreset(
	ctx context.Context, before workload.Document, source string, overrides jobplan.Overrides,
) (jobplan.Refill, error) {
	if jobplan.OtherPreset(before, source) == "" {
		return jobplan.Refill{Source: source}, nil
	}
	texts, err := v.factory.presetTexts(ctx)
	if err != nil {
		return jobplan.Refill{}, err
	}
	refill, err := jobplan.ChangePreset(before, source, overrides, texts)
	if err != nil && !isA[*jobplan.PresetError](err) {
		return jobplan.Refill{}, usageErrorf("%w", err)
	}
	return refill, err
}
