package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type resumeOptions struct {
	*jobVerb
	digest string
}

func newResumeCmd(f *Factory) *cobra.Command {
	o := &resumeOptions{jobVerb: &jobVerb{factory: f, unchangedText: phrase.Textf("is not paused"), ownsTerminal: true}}
	o.resultText = o.doneText
	o.applyTo = o.resumeJob
	cmd := o.addTo(&cobra.Command{
		Use:   "resume JOB...",
		Short: "Let paused jobs wait for GPUs again, and run",
		Long: "Let paused jobs wait for GPUs again, and run.\n\n" +
			"A job that was being made again when somebody was stopped is not there: a Lease has its Job. Who may write\n" +
			"Leases may have put another one there, so it is shown, and made when you agree. Where nobody can answer, look\n" +
			"at it with --dry-run -o yaml, and name the digest that stands there: then exactly that Job is made, or none.",
		Example: "  gpuctl resume qwen2-sft\n  gpuctl resume qwen2-sft --dry-run -o yaml",
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 && o.digest != "" {
			return usageErrorf("--digest is of the Job of one job: name that job alone")
		}
		return needJobs(cmd, args)
	}
	cmd.Flags().StringVar(&o.digest, "digest", "", "Make exactly the Job with this digest, of a job that is not there")
	return cmd
}

// doneText describes what was done to a job.
func (o *resumeOptions) doneText(r submit.Result) phrase.Text {
	made := r.Replacement
	switch {
	case made == nil:
		return phrase.Textf("resumed").Add(waitingText(r))
	case o.dryRun == dryRunNone:
		return phrase.Textf("made again, and resumed").Add(waitingText(r))
	}
	return phrase.Textf("made again, and resumed, as Lease %s has it with the digest %s", made.Lease, made.Digest)
}

// resumeJob resumes one job. If a Job has to be created for it, the user must have seen it: by its digest, or in this command.
func (o *resumeOptions) resumeJob(ctx context.Context, c *submit.Client, ref submit.Ref) (submit.Result, error) {
	options := o.stepOptions()
	options.Digest = o.digest
	result, err := o.resumeWithProgress(ctx, c, ref, options)
	var unseen *submit.UnseenJobError
	if !errors.As(err, &unseen) {
		return result, err
	}
	if unseen.Asked != "" || !o.factory.IO.InIsTerminal || !o.factory.IO.ErrIsTerminal {
		return submit.Result{}, phrase.Errorf("%[1]w\nLook at it: gpuctl resume %[2]s -n %[3]s --dry-run -o yaml\n"+
			"Make exactly that Job: gpuctl resume %[2]s -n %[3]s --digest DIGEST", err, ref.Name, ref.Namespace)
	}
	if err := o.confirmReplacement(unseen.Replacement); err != nil {
		return submit.Result{}, err
	}
	options.Digest = unseen.Replacement.Digest
	return o.resumeWithProgress(ctx, c, ref, options)
}

func (o *resumeOptions) resumeWithProgress(ctx context.Context, c *submit.Client, ref submit.Ref, options submit.StepOptions) (submit.Result, error) {
	stop := startProgress(o.factory.IO, phrase.Textf("Changing job %s", ref.Name))
	defer stop()
	return c.Resume(ctx, ref, options)
}

// confirmReplacement shows the user the Job to be created, and asks for confirmation.
func (o *resumeOptions) confirmReplacement(r submit.Replacement) error {
	streams := o.factory.IO
	text, whole, err := shortYAML(r.Object)
	if err != nil {
		return err
	}
	streams.printErr("Job %s is not there. Lease %s in namespace %s has this Job to be made in its place:\n", r.Ref.Name, r.Lease, r.Ref.Namespace)
	fmt.Fprintf(streams.ErrOut, "%s\n\n", text)
	if !whole {
		streams.printErr("All of it: gpuctl resume %s -n %s --dry-run -o yaml\n", r.Ref.Name, r.Ref.Namespace)
	}
	describeReplacement(newDescription(IOStreams{Out: streams.ErrOut, Width: streams.ErrWidth, Language: streams.outputLanguage()}), r, o.factory.Now())
	return askConfirmation(streams, phrase.Textf("Who may write Leases in namespace %s may have put this Job there. It is made with your rights", r.Ref.Namespace), false)
}
