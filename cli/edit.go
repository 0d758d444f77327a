package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func newEditCmd(f *Factory) *cobra.Command {
	v := &jobVerb{factory: f, unchangedText: phrase.Textf("is as it was: nothing was changed"), ownsTerminal: true}
	var restart bool
	v.resultText = func(r submit.Result) phrase.Text {
		if r.Action == submit.ActionReplaced {
			return phrase.Textf("is made again as it says now")
		}
		return phrase.Textf("is changed in place")
	}
	v.applyTo = func(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
		return v.editJob(ctx, c, ref, restart)
	}
	cmd := v.addTo(&cobra.Command{
		Use:   "edit JOB",
		Short: "Change the YAML of a job in your editor, and apply it",
		Long: "Change the YAML of a job in your editor, that of $VISUAL, else $EDITOR, else vi, and apply it. What Kubernetes\n" +
			"changes in place is changed in place. For the rest the job is made again, if it waits or is paused; one whose\n" +
			"pods run is refused, unless --restart permits to start it over.\n\n" +
			"Where you write another preset, it fills the fields again that the one before had filled and that you leave as\n" +
			"they are. All others stay. What it fills and drops is told.\n\n" +
			"What is not applied is not lost, as with --dry-run: the file that you wrote stays, and its name is told.",
		Example: "  gpuctl edit qwen2-sft\n  EDITOR=nano gpuctl edit qwen2-sft --restart",
		Args:    requireOneArg(phrase.Textf("the name of one job")),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.runOnJobs(cmd.Context(), args) },
	})
	cmd.Flags().BoolVar(&restart, "restart", false, "Start the job over if its pods run")
	return cmd
}

// editJob lets the user change the YAML of a job, and applies it. If the change is not applied, the file is kept.
func (v *jobVerb) editJob(ctx context.Context, c *submit.Client, ref submit.Ref, restart bool) (submit.Result, error) {
	options, err := v.editOptions(ctx, c, ref)
	if err != nil {
		return submit.Result{}, err
	}
	options.Restart = restart
	doc, err := c.Document(ctx, ref)
	if err != nil {
		return submit.Result{}, err
	}
	file, err := v.runEditor(ctx, ref.Name, doc.Source)
	if err != nil {
		return submit.Result{}, err
	}
	result, err := c.Rewrite(ctx, ref, func(before workload.Document) (string, error) {
		if before.Source != doc.Source {
			return "", &conflictError{what: phrase.Textf("job %q was changed by somebody else meanwhile", ref.Name)}
		}
		text, job, err := v.readEdited(file)
		if err != nil {
			return "", err
		}
		refill, err := v.refillAfterEdit(ctx, before, text)
		if err != nil {
			return "", err
		}
		v.note = refill.Message()
		return refill.Source, v.checkCycle(ctx, ref, job)
	}, options)
	if err != nil {
		if removeIfUnchanged(file, doc.Source) {
			return result, err
		}
		return result, phrase.Errorf("%w\nWhat you wrote is in %s", err, file)
	}
	if v.dryRun == dryRunServer && result.Action != submit.ActionUnchanged {
		v.io.printErr("What you wrote is in %s", file)
		return result, nil
	}
	return result, os.Remove(file)
}

// refillAfterEdit is [jobVerb.refillPreset] for YAML that the user wrote in an editor and has therefore seen in full. If a preset no longer exists
// and it is unknown which fields it filled, all fields stay, and a warning says so.
func (v *jobVerb) refillAfterEdit(ctx context.Context, before workload.Document, text string) (jobplan.Refill, error) {
	refill, err := v.refillPreset(ctx, before, text, jobplan.Overrides{})
	var gone *jobplan.PresetError
	if errors.As(err, &gone) {
		v.io.printErr("warning: preset %q is no longer there: what it has filled stays", gone.Preset)
		return jobplan.Refill{Source: text}, nil
	}
	return refill, err
}

// readEdited reads what the user wrote, which must be a single job.
func (v *jobVerb) readEdited(file string) (string, *workload.Job, error) {
	text, err := readFile(v.io.In, file)
	if err != nil {
		return "", nil, err
	}
	docs, err := v.factory.readDocuments([]string{file})
	if err != nil {
		return "", nil, err
	}
	if len(docs) != 1 || docs[0].Job == nil {
		return "", nil, usageErrorf("the file holds %s, want one job", contentsOf(docs))
	}
	return string(text), docs[0].Job, nil
}

// checkCycle refuses a dependency cycle. It is skipped for a user who may not list jobs.
func (v *jobVerb) checkCycle(ctx context.Context, ref submit.Ref, job *workload.Job) error {
	if len(job.DependsOn) == 0 {
		return nil
	}
	reader, err := v.factory.newReader()
	if err != nil {
		return err
	}
	there, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: ref.Namespace})
	if exitCode(err) == exitForbidden {
		return nil
	}
	if err != nil {
		return err
	}
	if way := dependencyCycle(ref.Name, job.DependsOn, there); way != nil {
		return &conflictError{what: phrase.Textf("job %q would never start: %s\nNothing was changed", ref.Name, jobplan.FormatCycle(way))}
	}
	return nil
}

// runEditor runs the user's editor on a text, and returns the path of the edited file.
func (v *jobVerb) runEditor(ctx context.Context, name, text string) (path string, err error) {
	file, err := os.CreateTemp("", "gpuctl-"+name+"-*.yaml")
	if err != nil {
		return "", phrase.Errorf("making a file to edit: %w", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", phrase.Errorf("writing the file to edit: %w", err)
	}
	editor, named := userEditor()
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file.Name()) // an editor may have options
	run.Stdin, run.Stdout, run.Stderr = v.io.In, rawOutput(v.io.Out), rawOutput(v.io.ErrOut)
	if err := run.Run(); err != nil {
		var kept phrase.Text
		if !removeIfUnchanged(file.Name(), text) {
			kept = phrase.Textf("; what you wrote is in %s", file.Name())
		}
		return "", phrase.Errorf("running the editor %s, %s: %w\nNothing was changed%s", editor, named, err, kept)
	}
	return file.Name(), nil
}

// userEditor returns the user's editor, and how it was determined.
func userEditor() (editor string, named phrase.Text) {
	if editor = cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")); editor != "" {
		return editor, phrase.Textf("which $VISUAL or $EDITOR names")
	}
	return "vi", phrase.Textf("as neither $VISUAL nor $EDITOR names one")
}

// removeIfUnchanged removes a file whose content has not changed, and reports whether it did.
func removeIfUnchanged(file, before string) bool {
	text, err := os.ReadFile(file) //nolint:gosec // gpuctl created the file
	return err == nil && string(text) == before && os.Remove(file) == nil
}
