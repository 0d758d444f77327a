package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// helpWidth is the width of help in columns: it fits most windows, and is readable in wider ones.
const helpWidth = 100

// wrapHelp wraps the help of a command and its subcommands, so that authors need not count columns.
func wrapHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	var fit func(*cobra.Command)
	fit = func(cmd *cobra.Command) {
		cmd.Long = wrapParagraphs(cmd.Long)
		for _, sub := range cmd.Commands() {
			fit(sub)
		}
	}
	fit(root)
}

// wrapParagraphs rewraps the paragraphs that have a line which is too long. Lines that begin with blanks are tables and examples, and are not
// changed.
func wrapParagraphs(text string) string {
	var out, paragraph []string
	end := func() {
		for _, line := range paragraph {
			if monospace.Columns(line) > helpWidth {
				paragraph = []string{wrapLine(strings.Join(paragraph, " "), helpWidth, 0)}
				break
			}
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			if strings.HasSuffix(line, ".") || strings.HasSuffix(line, ":") { // the line break may be intended
				end()
			}
			continue
		}
		end()
		out = append(out, line)
	}
	end()
	return strings.Join(out, "\n")
}
