package cli

import (
	"context"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// jobVerb is a command that applies one action to each of the named jobs.
type jobVerb struct {
	changes
	factory *Factory
	// act applies the action to one job.
	act func(context.Context, *submit.Client, submit.Ref) (submit.Result, error)
	// says describes what was done. It is not called if nothing was done.
	says func(submit.Result) phrase.Text
	// alone says that the action needs the terminal, so that no progress is shown.
	alone bool
	// already describes a job for which nothing had to be done, such as "paused already".
	already phrase.Text
	// note is an additional message of the last action.
	note phrase.Text
}

// addTo adds the common parts of all such commands.
func (v *jobVerb) addTo(cmd *cobra.Command) *cobra.Command {
	v.io, v.output = v.factory.IO, changeOutput()
	v.output.addTo(cmd)
	addDryRunFlag(cmd, &v.dryRun, dryRunServer)
	if cmd.RunE == nil {
		cmd.Args = needJobs
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) }
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = completeJobs(v.factory)
	}
	return cmd
}

func needJobs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s needs the names of jobs\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

func (v *jobVerb) run(ctx context.Context, args []string) error {
	if err := checkDryRun(v.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	refs, err := v.factory.jobRefs(args)
	if err != nil {
		return err
	}
	writer, err := v.factory.writer()
	if err != nil {
		return err
	}
	failed := failures{factory: v.factory}
	for _, ref := range refs {
		stop := func() {}
		if !v.alone {
			stop = startProgress(v.factory.IO, phrase.Of("Changing job %s", ref.Name))
		}
		v.note = nil
		result, err := v.act(ctx, writer, ref)
		stop()
		if err == nil {
			v.tellNote(result)
			v.add(v.changeOf(result))
		} else if failed.add(err) {
			break
		}
	}
	if err := v.flush(); err != nil {
		return err
	}
	return failed.err()
}

// tellNote prints the note of an action on a job.
func (v *jobVerb) tellNote(result submit.Result) {
	if v.note != nil && result.Action != submit.ActionUnchanged {
		v.io.tell("%s/%s: %s", result.Ref.Kind, result.Ref.Name, v.note.In(v.factory.language()))
	}
}

func (v *jobVerb) changeOf(result submit.Result) change {
	out := changeOf(result)
	out.text = v.already
	if result.Action != submit.ActionUnchanged {
		out.text = v.says(result)
	}
	return out
}

// stepOptions returns the options for a step now.
func (v *jobVerb) stepOptions() submit.StepOptions {
	return submit.StepOptions{Now: v.factory.Now(), DryRun: v.dryRun == dryRunServer}
}

// editOptions returns the options for an edit of one job.
func (v *jobVerb) editOptions(ctx context.Context, writer *submit.Client, ref submit.Ref) (submit.EditOptions, error) {
	options, err := v.factory.renderOptionsOf(ctx, writer, ref)
	return submit.EditOptions{DryRun: v.dryRun == dryRunServer, Render: options, Presets: v.factory.presetTexts}, err
}

// released describes the GPUs that a job without pods releases.
func released(result submit.Result) phrase.Text {
	switch result.GPUs {
	case 0:
		return nil
	case 1:
		return phrase.Of(": its GPU is released")
	}
	return phrase.Of(": its %d GPUs are released", result.GPUs)
}

// asked describes the GPUs that a job waits for again.
func asked(result submit.Result) phrase.Text {
	if result.GPUs == 0 {
		return nil
	}
	return phrase.Of(": it waits for %s", plural(int(result.GPUs), "GPU"))
}
