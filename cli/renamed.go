package cli

import (
	"io"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ownCommand matches a command in a hint: gpuctl and the first word after it.
var ownCommand = regexp.MustCompile(`\bgpuctl ((?:-n \S+ )?)([a-z-]+)`)

// setProgramName makes hints and help use the name under which the user called gpuctl, such as kubectl gpu. Text that names no command of gpuctl is
// not a hint. Output for programs and YAML are not changed.
func setProgramName(f *Factory, root *cobra.Command, name string) {
	if name == "gpuctl" {
		return
	}
	rename := func(text string) string {
		return ownCommand.ReplaceAllStringFunc(text, func(hint string) string {
			parts := ownCommand.FindStringSubmatch(hint)
			if found, _, err := root.Find(parts[2:]); err != nil || found == root {
				return hint
			}
			return name + " " + parts[1] + parts[2]
		})
	}
	f.renameHint = rename
	if stderr, ok := f.IO.ErrOut.(*escapingWriter); ok {
		stderr.rename = rename
	}
}

// renameHelp renames the hints in the help of a command.
func renameHelp(cmd *cobra.Command, rename func(string) string) {
	cmd.Long = rename(cmd.Long)
	usage := func(flag *pflag.Flag) { flag.Usage = rename(flag.Usage) }
	cmd.Flags().VisitAll(usage)
	cmd.InheritedFlags().VisitAll(usage)
}

// renamingWriter is a stream of text for people in which hints are renamed.
type renamingWriter struct {
	out    io.Writer
	rename func(string) string
}

// Write implements io.Writer.
func (r renamingWriter) Write(data []byte) (int, error) {
	if _, err := io.WriteString(r.out, r.rename(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}
