package cli

import "github.com/spf13/cobra"

// NewRootCommand returns gpuctl's root command, for tools that document it, such as the generator of its man pages.
func NewRootCommand(streams IOStreams) *cobra.Command {
	return newRootCmd(NewFactory(streams), "gpuctl")
}
