package cli

import (
	"regexp"
	"strings"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// escape matches a terminal colour, which takes no column.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// wrap breaks a line between words to fit a terminal of width columns, 0 for no terminal. Continuation lines begin with hang blanks. A word
// longer than a line is not broken: it may be a name to copy. Languages without blanks between words are broken between characters.
func wrap(line string, width, hang int) string {
	columns := func(text string) int { return monospace.Columns(escape.ReplaceAllString(text, "")) }
	if width <= 2*hang || columns(line) <= width {
		return line
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out strings.Builder
	out.WriteString(lead)
	at := len(lead)
	for i, word := range strings.Fields(line) {
		for j, piece := range monospace.Pieces(word) {
			between := ""
			if i > 0 && j == 0 {
				between = " "
			}
			switch {
			case i+j > 0 && at+len(between)+columns(piece) > width:
				out.WriteString("\n" + strings.Repeat(" ", hang))
				at = hang
			default:
				out.WriteString(between)
				at += len(between)
			}
			out.WriteString(piece)
			at += columns(piece)
		}
	}
	return out.String()
}

// text writes a line, wrapped on a terminal.
func (d *description) text(line string, hang int) {
	_, _ = d.out.Write([]byte(wrap(line, d.width, hang) + "\n"))
}
