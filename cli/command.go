package cli

import "github.com/spf13/cobra"

// Command returns gpuctl itself, for what is written about it from outside, such as its pages for man.
func Command(streams IOStreams) *cobra.Command { return newRootCmd(NewFactory(streams), "gpuctl") }
