package screen

import (
	"strconv"
	"strings"
	"unicode"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// Style is the appearance of characters. The zero value is the terminal's default.
type Style struct {
	// Color is the SGR number of the text colour, 30 to 37 or 90 to 97; 0 is none.
	Color         int
	Bold, Reverse bool
}

// Colours of the screen itself.
const (
	red    = 31
	yellow = 33
	cyan   = 36
)

// Span is text of one style.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of the screen.
type Line []Span

// String returns the line without its styles.
func (l Line) String() string {
	var out strings.Builder
	for _, span := range l {
		out.WriteString(span.Text)
	}
	return out.String()
}

func (l Line) columnCount() int { return monospace.Columns(l.String()) }

// cutSequence splits a text around the first SGR sequence.
func cutSequence(text string) (before, parameters, after string, found bool) {
	for from := 0; ; {
		at := strings.Index(text[from:], "\x1b[")
		if at < 0 {
			return text, "", "", false
		}
		start := from + at
		end := start + len("\x1b[")
		for from = end; end < len(text) && strings.IndexByte("0123456789;:", text[end]) >= 0; end++ {
		}
		if end < len(text) && text[end] == 'm' {
			return text[:start], text[from:end], text[end+1:], true
		}
	}
}

// stripStyles returns a text without SGR sequences.
func stripStyles(text string) string {
	before, _, rest, found := cutSequence(text)
	if !found {
		return text
	}
	var out strings.Builder
	for found {
		out.WriteString(before)
		before, _, rest, found = cutSequence(rest)
	}
	out.WriteString(before)
	return out.String()
}

// ParseLine parses one line of text with terminal sequences. It keeps only colours and bold, since the text may contain any output of programs.
func ParseLine(text string) Line {
	var out Line
	var style Style
	for found := true; found; {
		var part, parameters string
		part, parameters, text, found = cutSequence(text)
		if part = strings.Map(displayRune, part); part != "" {
			out = append(out, Span{Text: part, Style: style})
		}
		style = style.applySequence(parameters)
	}
	return out
}

// displayRune returns the character to display: the character itself, unless a terminal would obey it.
func displayRune(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return '?'
	}
	return r
}

// applySequence returns the style after a sequence.
func (s Style) applySequence(parameters string) Style {
	numbers := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	if len(numbers) == 0 {
		return Style{}
	}
	for _, number := range numbers {
		n, _ := strconv.Atoi(number) // an overflow selects nothing
		switch {
		case n == 0:
			s = Style{}
		case n == 1:
			s.Bold = true
		case n == 39:
			s.Color = 0
		case n == 38 || n == 48: // a colour of a larger palette, whose numbers follow
			return s
		case 30 <= n && n <= 37 || 90 <= n && n <= 97:
			s.Color = n
		}
	}
	return s
}

// withoutControls returns the line without characters that a terminal would obey.
func (l Line) withoutControls() Line {
	out := make(Line, len(l))
	for i, span := range l {
		out[i] = Span{Text: strings.Map(displayRune, span.Text), Style: span.Style}
	}
	return out
}

// textLine returns a line of one style.
func textLine(text string, style Style) Line { return Line{{Text: text, Style: style}} }

// splitAt splits a line after a number of columns.
func (l Line) splitAt(columns int) (head, tail Line) {
	used := 0
	for i, span := range l {
		for at, r := range span.Text {
			wide := monospace.ColumnsOf(r)
			if used += wide; used > columns {
				head = append(head, l[:i]...)
				if at > 0 {
					head = append(head, Span{span.Text[:at], span.Style})
				}
				return head, append(Line{{span.Text[at:], span.Style}}, l[i+1:]...)
			}
		}
	}
	return l, nil
}

// truncateTo truncates a line to a width, with an ellipsis.
func (l Line) truncateTo(width int) Line {
	if l.columnCount() <= width {
		return l
	}
	head, _ := l.splitAt(max(0, width-1))
	if width > 0 {
		head = append(head[:len(head):len(head)], Span{Text: "…"})
	}
	return head
}

// wrapTo wraps a line to a width, into at least one line: between words, unless that leaves a line half empty.
func (l Line) wrapTo(width int) []Line {
	width = max(2, width) // the widest character takes two columns
	var out []Line
	for {
		head, tail := l.splitAt(width)
		if len(tail) == 0 {
			return append(out, head)
		}
		word := strings.LastIndexByte(head.String(), ' ') + 1
		if columns := monospace.Columns(head.String()[:word]); columns > width/2 && !strings.HasPrefix(tail[0].Text, " ") {
			head, tail = l.splitAt(columns)
		}
		out = append(out, head)
		l = tail
	}
}

// withReverse returns the line as selected, over the whole width.
func (l Line) withReverse(width int) Line {
	out := make(Line, 0, len(l)+1)
	for _, span := range append(l[:len(l):len(l)], Span{Text: strings.Repeat(" ", max(0, width-l.columnCount()))}) {
		span.Style.Reverse = true
		out = append(out, span)
	}
	return out
}

// withBold returns the line in bold.
func (l Line) withBold() Line {
	out := make(Line, 0, len(l))
	for _, span := range l {
		span.Style.Bold = true
		out = append(out, span)
	}
	return out
}
