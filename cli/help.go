package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// helpWidth is how wide help is, in columns: what most windows show, and what is still easy to read in those that are wider.
const helpWidth = 100

// fitHelp makes the help of a command and all below it fit in its columns, so that those who write it need not count.
func fitHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	var fit func(*cobra.Command)
	fit = func(cmd *cobra.Command) {
		cmd.Long = fitted(cmd.Long)
		for _, sub := range cmd.Commands() {
			fit(sub)
		}
	}
	fit(root)
}

// fitted breaks the paragraphs anew that have a line which is too long. Lines that begin with blanks are tables and examples,
// and stay.
func fitted(text string) string {
	var out, paragraph []string
	end := func() {
		for _, line := range paragraph {
			if monospace.Columns(line) > helpWidth {
				paragraph = []string{wrap(strings.Join(paragraph, " "), helpWidth, 0)}
				break
			}
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			if strings.HasSuffix(line, ".") || strings.HasSuffix(line, ":") { // whoever wrote it may have meant to begin anew
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
