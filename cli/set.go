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

// sectionResources is the section of a job's YAML that says what its pods ask for.
const sectionResources = "resources."

func newSetResourcesCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, already: "asks for that already"}
	var sets []string
	var restart bool
	var stay []string
	v.says = func(submit.Result) string {
		text := "asks for " + strings.Join(sets, ", ") + " now"
		if len(stay) > 0 {
			text += ", and as before for its own " + strings.Join(stay, ", ")
		}
		return text
	}
	v.act = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		options, err := v.editOptions(ctx, c, ref)
		if err != nil {
			return submit.Result{}, err
		}
		options.Restart = restart
		stay = nil
		return c.Rewrite(ctx, ref, func(doc workload.Document) (source string, err error) {
			source, stay, err = v.asking(ctx, doc, sets)
			return source, err
		}, options)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "resources JOB... FIELD=VALUE...",
		Short: "Change what jobs ask for: GPUs, CPU, memory, pool, time limit",
		Long: "Change what jobs ask for. A FIELD is one of resources in the job's YAML, which\n" +
			"gpuctl explain training.resources lists. Slices (mig) stand in the place of whole GPUs (gpu,\n" +
			"gpu-share): setting one drops the other. Another preset fills the fields again that are as the\n" +
			"one before has them; all others stay.\n\n" + editHelp,
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
				return usagef("%s needs the names of jobs, and FIELD=VALUE such as gpu=4\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return v.run(cmd.Context(), jobs)
		},
	})
	cmd.Flags().BoolVar(&restart, "restart", false, "Start jobs over whose pods run")
	return cmd
}

// asking returns the YAML of a job that asks for something else, and the fields that its new preset does not fill.
func (v *jobVerb) asking(ctx context.Context, doc workload.Document, sets []string) (source string, stay []string, err error) {
	full := make([]string, len(sets))
	for i, set := range sets {
		full[i] = sectionResources + strings.TrimPrefix(set, sectionResources)
	}
	overrides := jobplan.Overrides{Set: full}
	if source, err = overrides.Apply(doc.Kind, doc.Source); err != nil {
		return "", nil, usagef("%w", err)
	}
	source, stay, err = v.refilled(ctx, doc, source, overrides)
	if isA[*jobplan.PresetError](err) {
		return "", nil, &conflictError{what: phrase.OfError(err)}
	}
	if err != nil {
		return "", nil, err
	}
	_, err = v.factory.parseWritten(source, true)
	return source, stay, err
}

// refilled returns the YAML that a job is to have without what the preset has filled in that it had before, for its new one to
// fill, and the fields that stay. The overrides are what the user has set in it, which stays in any case. A job that keeps
// its preset, or leaves it, keeps all.
func (v *jobVerb) refilled(
	ctx context.Context, before workload.Document, source string, overrides jobplan.Overrides,
) (refilled string, stay []string, err error) {
	preset := otherPreset(before, source)
	if preset == "" {
		return source, nil, nil
	}
	texts, err := v.factory.presetTexts(ctx)
	if err != nil {
		return "", nil, err
	}
	if _, known := texts[preset]; !known {
		return source, nil, nil // Rewrite says so
	}
	if source, err = jobplan.Unfilled(before, source, texts); err != nil {
		return "", nil, err
	}
	if source, err = overrides.Apply(before.Kind, source); err != nil {
		return "", nil, usagef("%w", err)
	}
	stay, err = overrides.OwnFields(source)
	return source, stay, err
}

// otherPreset is the preset that a job has now which had another one, "" where it has not.
func otherPreset(before workload.Document, source string) string {
	docs, _ := workload.Parse("", []byte(source))
	if len(docs) != 1 || docs[0].Job == nil {
		return ""
	}
	was, is := before.Job.Resources.Preset, docs[0].Job.Resources.Preset
	if was == "" || was == is {
		return ""
	}
	return is
}
