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
	// applyTo applies the action to one job.
	applyTo func(context.Context, *submit.Client, submit.Ref) (submit.Result, error)
	// resultText describes what was done. It is not called if nothing was done.
	resultText func(submit.Result) phrase.Text
	// ownsTerminal says that the action needs the terminal, so that no progress is shown.
	ownsTerminal bool
	// unchangedText describes a job for which nothing had to be done, such as "paused already".
	unchangedText phrase.Text
	// note is an additional message of the last action.
	note phrase.Text
}

// addTo adds the common parts of all such commands.
func (v *jobVerb) addTo(cmd *cobra.Command) *cobra.Command {
	v.io, v.output = v.factory.IO, newChangeOutput()
	v.output.addTo(cmd)
	addDryRunFlag(cmd, &v.dryRun, dryRunServer)
	if cmd.RunE == nil {
		cmd.Args = needJobs
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return v.runOnJobs(cmd.Context(), args) }
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = completeJobs(v.factory)
	}
	return cmd
}

func needJobs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageErrorf("%s needs the names of jobs\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

func (v *jobVerb) runOnJobs(ctx context.Context, args []string) error {
	if err := checkDryRun(v.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	refs, err := v.factory.jobRefs(args)
	if err != nil {
		return err
	}
	writer, err := v.factory.newWriter()
	if err != nil {
		return err
	}
	failed := failures{factory: v.factory}
	for _, ref := range refs {
		stop := func() {}
		if !v.ownsTerminal {
			stop = startProgress(v.factory.IO, phrase.Textf("Changing job %s", ref.Name))
		}
		v.note = nil
		result, err := v.applyTo(ctx, writer, ref)
		stop()
		if err == nil {
			v.printNote(result)
			v.recordChange(v.newJobChange(result))
		} else if failed.addError(err) {
			break
		}
	}
	if err := v.printChanges(); err != nil {
		return err
	}
	return failed.firstError()
}

// printNote prints the note of an action on a job.
func (v *jobVerb) printNote(result submit.Result) {
	if v.note != nil && result.Action != submit.ActionUnchanged {
		v.io.printErr("%s/%s: %s", result.Ref.Kind, result.Ref.Name, v.note.Localize(v.factory.outputLanguage()))
	}
}

func (v *jobVerb) newJobChange(result submit.Result) change {
	out := newChange(result)
	out.text = v.unchangedText
	if result.Action != submit.ActionUnchanged {
		out.text = v.resultText(result)
	}
	return out
}

// stepOptions returns the options for a step now.
func (v *jobVerb) stepOptions() submit.StepOptions {
	return submit.StepOptions{Now: v.factory.Now(), DryRun: v.dryRun == dryRunServer}
}

// editOptions returns the options for an edit of one job.
func (v *jobVerb) editOptions(ctx context.Context, writer *submit.Client, ref submit.Ref) (submit.EditOptions, error) {
	options, err := v.factory.renderOptionsForJob(ctx, writer, ref)
	return submit.EditOptions{DryRun: v.dryRun == dryRunServer, Render: options, Presets: v.factory.presetTexts}, err
}

// releasedText describes the GPUs that a job without pods releases.
func releasedText(result submit.Result) phrase.Text {
	switch result.GPUs {
	case 0:
		return nil
	case 1:
		return phrase.Textf(": its GPU is released as its pod ends")
	}
	return phrase.Textf(": its %d GPUs are released as its pods end", result.GPUs)
}

// waitingText describes what a job waits for again: other jobs, or else its GPUs.
func waitingText(result submit.Result) phrase.Text {
	if len(result.WaitsFor) > 0 {
		return phrase.Textf(": it waits for %s", joinWords(result.WaitsFor))
	}
	if result.GPUs == 0 {
		return nil
	}
	return phrase.Textf(": it waits for %s", countText(int(result.GPUs), "GPU"))
}
