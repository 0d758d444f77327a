package cli

import (
	"context"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type attachOptions struct {
	podTarget
	// noStdin only watches.
	noStdin bool
}

func newAttachCmd(f *Factory) *cobra.Command {
	o := &attachOptions{podTarget: podTarget{factory: f}}
	cmd := &cobra.Command{
		Use:   "attach JOB",
		Short: "Connect to the program of a job that runs",
		Long: "Connect to the program of a job that runs: of rank 0, or of its oldest pod. What it prints from now on is\n" +
			"shown, and what you type is its input, if the job has environment.stdin; else attach only watches. What it\n" +
			"printed before is for gpuctl logs; for a program of your own beside it there is gpuctl shell.\n\n" +
			"The exit code is that of the program if it ends. Closing the terminal, or Ctrl-C where attach only watches,\n" +
			"ends the connection, and not the program.",
		Example:           "  gpuctl attach shell-x7k2p\n  gpuctl attach llama-pretrain --rank 3\n  gpuctl attach qwen2-sft --no-stdin",
		Args:              requireOneArg(phrase.Textf("the name of one job")),
		RunE:              func(cmd *cobra.Command, args []string) error { return runAttach(cmd.Context(), o, jobName(args[0])) },
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.noStdin, "no-stdin", false, "Only watch, also if the program takes input")
	return cmd
}

func runAttach(ctx context.Context, o *attachOptions, job string) error {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	c, err := o.prepareConnection(ctx, client, job, where)
	if err != nil {
		return err
	}
	switch {
	case !c.stdin:
		o.printStatus("Job %s takes no input: this is its output from now on. Ctrl-C ends the connection, not the job", job)
	case o.noStdin:
		o.printStatus("This is the output of job %s from now on. Ctrl-C ends the connection, not the job", job)
	default:
		c.printPromptHint()
	}
	c.stdin = c.stdin && !o.noStdin
	err = c.runUntilEnd(ctx)
	if ctx.Err() == nil {
		return err
	}
	o.printStatus("The job goes on. Come back to it: gpuctl attach %s -n %s", job, where.namespace)
	return &quietError{&outcomeError{code: exitNotFinished, text: phrase.Textf("detached")}}
}

func (o *attachOptions) printStatus(format string, args ...any) {
	o.factory.IO.printErr(format, args...)
}

// printPromptHint tells the user that they can type: not every shell redraws a prompt that was printed before the connection.
func (c *connection) printPromptHint() {
	if c.tty && c.factory.IO.InIsTerminal {
		c.factory.IO.printErr("Connected to pod %s. Without a prompt, press Enter", c.where.pod)
	}
}
