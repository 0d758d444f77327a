package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

func newCheckCmd(p *location) *cobra.Command {
	var machineOnly bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether a real node can run here, and what is in the way",
		Long: "Say whether a real node can run on this machine, as `up --real-node` starts it, and what is in the way. The exit\n" +
			"code is 1 when it cannot.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := realnode.Check(p.sandboxDir()); err != nil {
				return err
			}
			if !machineOnly {
				if err := checkTools(); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "a real node can run here")
			return nil
		},
	}
	cmd.Flags().BoolVar(&machineOnly, "machine-only", false, "Do not ask whether the programs are there that `"+realnode.ToolsCommand+"` builds")
	return cmd
}

func checkTools() error {
	dir, err := sandbox.FindTools()
	if err != nil {
		return err
	}
	return realnode.CheckTools(dir)
}
