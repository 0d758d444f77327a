package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// CommandPaths returns all commands that do something themselves, as a user types them after "gpuctl": "get jobs".
// Tests and the reference pages go through them.
func CommandPaths() []string {
	var out []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		groups := cmd.HasAvailableSubCommands() // such a command shows its help
		if cmd.HasParent() && cmd.IsAvailableCommand() && !groups {
			_, path, _ := strings.Cut(cmd.CommandPath(), " ")
			out = append(out, path)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(NewFactory(SystemStreams()), "gpuctl"))
	return out
}
