package cli

import (
	"context"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type execOptions struct {
	podTarget
	stdin, tty bool
}

func newExecCmd(f *Factory) *cobra.Command {
	o := &execOptions{podTarget: podTarget{factory: f}}
	cmd := &cobra.Command{
		Use:   "exec JOB -- COMMAND [ARG]...",
		Short: "Run a command in a container of a job",
		Long: "Run a command in a container of a job that runs: of rank 0, or of its oldest pod. The exit code is that of\n" +
			"the command.",
		Example: "  gpuctl exec qwen2-sft -- nvidia-smi\n" +
			"  gpuctl exec llama-pretrain --rank 3 -- py-spy dump --pid 1\n" +
			"  gpuctl exec qwen2-sft -i -- python - < check.py",
		Args:              commandAfterJob,
		RunE:              func(cmd *cobra.Command, args []string) error { return runExec(cmd.Context(), o, args[0], args[1:]) },
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "Pass standard input on to the command")
	cmd.Flags().BoolVarP(&o.tty, "tty", "t", false, "Give the command a terminal")
	return cmd
}

// commandAfterJob requires a job, and a command after --.
func commandAfterJob(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
		return usageErrorf("%s needs one job, and after -- the command\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// shellCommand runs bash if the image has it, else sh.
func shellCommand() []string {
	return []string{"sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh"}
}

func newShellCmd(f *Factory) *cobra.Command {
	o := &execOptions{podTarget: podTarget{factory: f}, stdin: true, tty: true}
	cmd := &cobra.Command{
		Use:     "shell JOB",
		Short:   "Open a shell in a container of a job",
		Long:    "Open a shell in a container of a job that runs: bash if the image has it, else sh.",
		Example: "  gpuctl shell qwen2-sft\n  gpuctl shell llama-pretrain --rank 3",
		Args:    requireOneArg(phrase.Textf("the name of one job")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExec(cmd.Context(), o, args[0], shellCommand())
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runExec(ctx context.Context, o *execOptions, job string, command []string) error {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	io := o.factory.IO
	c := remoteCommand{command: command, out: rawOutput(io.Out), errOut: rawOutput(io.ErrOut), tty: o.tty}
	if o.stdin || o.tty {
		c.in = io.In
	}
	if o.tty {
		terminal, giveBack, err := takeTerminal(io.In)
		if err != nil {
			return err
		}
		defer giveBack()
		c.sizes = terminal
	}
	return o.executeCommand(ctx, client, where, c)
}
