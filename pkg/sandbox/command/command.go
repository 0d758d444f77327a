// Package command is the command line of gpu-sandbox. `up` starts a supervisor in the background, a hidden command of the same program, that owns the
// cluster; the other commands find it by files in the user's cache directory. Data goes to standard output, messages to standard error.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the program and returns its exit code: 0, or 1 after an error was printed.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

// New returns the command and its subcommands.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:           programName,
		Short:         "Run a Kubernetes cluster with simulated GPU nodes on this machine",
		Long:          "A real control plane (etcd, kube-apiserver, kube-controller-manager, gpu-scheduler) as processes of\nthis user, with nodes simulated by kwok. No Docker, and no root but for a real node beside them.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var place location
	cmd.PersistentFlags().StringVar(&place.name, "name", defaultName, "Name of the sandbox")
	cmd.PersistentFlags().StringVar(&place.root, "dir", "", "Directory that holds all sandboxes (default: gpu-sandbox in the user's cache directory)")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return place.completeFlags() }
	cmd.AddCommand(newUpCmd(&place), newRunCmd(&place), newDownCmd(&place), newStatusCmd(&place),
		newKubeconfigCmd(&place), newEnvCmd(&place), newLogsCmd(&place), newNodeCmd(&place), newCheckCmd(&place))
	return cmd
}
