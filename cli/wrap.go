package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// escape is a colour of a terminal, which takes no column.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// wrap breaks a line between words so that it fits a terminal of width columns, 0 for no terminal. The lines that
// follow begin with hang blanks. A word that is longer than a line is not broken: it may be a name to copy.
func wrap(line string, width, hang int) string {
	columns := func(text string) int { return utf8.RuneCountInString(escape.ReplaceAllString(text, "")) }
	if width <= 2*hang || columns(line) <= width {
		return line
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out strings.Builder
	out.WriteString(lead)
	at := len(lead)
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
		case at+1+columns(word) > width:
			out.WriteString("\n" + strings.Repeat(" ", hang))
			at = hang
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += columns(word)
	}
	return out.String()
}

// text writes a line, wrapped on a terminal.
func (d *description) text(line string, hang int) {
	_, _ = d.out.Write([]byte(wrap(line, d.width, hang) + "\n"))
}
