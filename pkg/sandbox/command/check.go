package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

func newCheckCmd(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether this machine can run a real node, and what is in the way",
		Long: "Say whether this machine can run a real node, as `up --real-node` starts it, and what is in the way. Programs that\n" +
			"`" + realnode.ToolsCommand + "` builds are not asked for. The exit code is 1 when it cannot.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := realnode.Check(p.dir()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "this machine can run a real node")
			return nil
		},
	}
}
