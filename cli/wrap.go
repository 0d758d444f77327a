package cli

import (
	"regexp"
	"strings"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// colorEscape matches a terminal colour, which takes no column.
var colorEscape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// wrapLine breaks a line between words to fit a terminal of width columns, 0 for no terminal. Continuation lines begin with hang blanks. A word
// longer than a line is not broken: it may be a name to copy. Languages without blanks between words are broken between characters.
func wrapLine(line string, width, hang int) string {
	columns := func(text string) int { return monospace.Columns(colorEscape.ReplaceAllString(text, "")) }
	if width <= 2*hang || columns(line) <= width {
		return line
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out strings.Builder
	out.WriteString(lead)
	at := len(lead)
	for i, word := range strings.Fields(line) {
		for j, piece := range monospace.BreakPieces(word) {
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

// writeWrapped writes a line, wrapped on a terminal.
func (d *description) writeWrapped(line string, hang int) {
	_, _ = d.out.Write([]byte(wrapLine(line, d.width, hang) + "\n"))
}
