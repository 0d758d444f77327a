package screen

import (
	"strings"
	"time"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// The minimum heights at which the head has all its lines, and at which it has one.
const (
	heightForAll = 14
	heightForOne = 8
)

// headHeight returns how many lines are above the title.
func (s State) headHeight() int {
	switch {
	case s.height >= heightForAll:
		return 3
	case s.height >= heightForOne:
		return 1
	}
	return 0
}

// pageHeight returns how many lines a page has: all except the head, the title and the last line.
func (s State) pageHeight() int { return max(1, s.height-s.headHeight()-2) }

// tableHeight returns how many lines the rows of a table have.
func (s State) tableHeight() int { return max(1, s.pageHeight()-1) }

// Lines returns the lines of the screen: as many as its height, none wider than its width.
func (s State) Lines() []Line {
	lines := s.headLines()[:s.headHeight()]
	lines = append(lines, s.titleLine())
	body := s.tableLines()
	if s.page != nil {
		body = s.pageLines()
	}
	lines = append(lines, body[:min(len(body), s.pageHeight())]...)
	for len(lines) < s.height-1 {
		lines = append(lines, nil)
	}
	if len(lines) >= s.height {
		lines = lines[:max(0, s.height-1)]
	}
	if s.height > 0 {
		lines = append(lines, s.lastLine())
	}
	for i := range lines {
		lines[i] = lines[i].withoutControls().truncateTo(s.width)
	}
	return lines
}

func (s State) headLines() []Line {
	namespace := s.head.Namespace
	if s.all {
		namespace = phrase.Textf("all").Localize(s.language)
	}
	bold := Style{Bold: true}
	first := Line{
		{phrase.Textf("Context: ").Localize(s.language), Style{}}, {s.head.Context, bold},
		{"   " + phrase.Textf("Namespace: ").Localize(s.language), Style{}}, {namespace, bold},
	}
	clock := textLine(s.head.readTimeText().Localize(s.language), Style{})
	if s.head.Read.IsZero() || s.head.Trouble != "" {
		clock = clock.withColor(yellow)
	}
	gap := s.width - clock.columnCount()
	first = first.truncateTo(max(0, gap-1))
	first = append(first, Span{Text: strings.Repeat(" ", max(1, gap-first.columnCount()))})
	return []Line{append(first, clock...), ParseLine(s.gpusText()), textLine(s.keyHints().Localize(s.language), Style{Color: cyan})}
}

// gpusText returns the free GPUs of as many pools as there is room for: a number that is cut in two would be another one.
func (s State) gpusText() string {
	label := phrase.Textf("GPUs free: ")
	if !s.head.GPUsRead.IsZero() {
		label = phrase.Textf("GPUs free, as of %s: ", s.head.GPUsRead.Format(time.TimeOnly))
	}
	text := label.Localize(s.language)
	if len(s.head.GPUs) == 0 {
		return text + "-"
	}
	const between = " · "
	for shown := len(s.head.GPUs); shown > 0; shown-- {
		all := text + strings.Join(s.head.GPUs[:shown], between)
		if left := len(s.head.GPUs) - shown; left > 0 {
			all += between + phrase.Textf("%d more", left).Localize(s.language)
		}
		if monospace.Columns(all) <= s.width {
			return all
		}
	}
	return text + phrase.Textf("%d more", len(s.head.GPUs)).Localize(s.language)
}

// titleLine returns the line above the content.
func (s State) titleLine() Line {
	label := " " + s.titleText().Localize(s.language) + " "
	const lead = 2
	rest := max(0, s.width-monospace.Columns(label)-lead)
	rule := Style{Color: cyan}
	return Line{{strings.Repeat("─", lead), rule}, {label, Style{Color: cyan, Bold: true}}, {strings.Repeat("─", rest), rule}}
}

func (s State) tableLines() []Line {
	var out []Line
	if s.table.Header != "" && len(s.shown) > 0 {
		out = append(out, ParseLine(strings.TrimSuffix(s.table.Header, "\n")).withBold())
	}
	if len(s.shown) == 0 {
		if note := s.emptyNote(); note != "" {
			return ParseLine(note).wrapTo(s.width)
		}
	}
	for i := s.top; i < len(s.shown) && len(out) < s.pageHeight(); i++ {
		for _, text := range rowLines(s.shown[i]) {
			line := ParseLine(text)
			if i == s.selected {
				line = line.truncateTo(s.width).withReverse(s.width)
			}
			out = append(out, line)
		}
	}
	return out
}

// emptyNote returns the text shown in place of rows.
func (s State) emptyNote() string {
	if len(s.table.Rows) > 0 {
		return noMatchText(s.filter).Localize(s.language)
	}
	return s.table.Note
}

func (s State) pageLines() []Line {
	var out []Line
	switch {
	case len(s.page.Lines) == 0:
		return textLine(phrase.Textf("Reading …").Localize(s.language), Style{}).wrapTo(s.width)
	case s.page.lineCount() == 0:
		return ParseLine(noMatchText(s.page.filter).Localize(s.language)).wrapTo(s.width)
	}
	for at := s.page.top; at < s.page.lineCount() && len(out) < s.pageHeight(); at++ {
		out = append(out, ParseLine(s.page.lineAt(at)).wrapTo(s.width)...)
	}
	return out
}

// lastLine returns the prompt, or else an error, or else a note about the table.
func (s State) lastLine() Line {
	switch {
	case s.prompt.mark != "":
		line := s.prompt.mark + s.prompt.text
		typed := Line{{line, Style{}}, {" ", Style{Reverse: true}}}
		if views := matchingViews(s.prompt.text); s.prompt.mark == ":" && len(views) > 0 {
			typed = append(typed, Span{"  " + strings.Join(views, " "), Style{Color: cyan}})
		}
		if over := typed.columnCount() - s.width; over > 0 && s.prompt.mark == "/" {
			_, typed = typed.splitAt(over) // the end is where the user types
		}
		return typed
	case len(s.answer) > 0:
		return textLine(s.answer.Localize(s.language), Style{Color: yellow})
	case s.head.Trouble != "":
		return ParseLine(s.head.troubleText().Localize(s.language)).withColor(red)
	case s.page == nil && len(s.shown) > 0:
		return ParseLine(s.table.Note).withColor(yellow)
	}
	return nil
}

// withColor returns the line in one colour.
func (l Line) withColor(color int) Line { return textLine(l.String(), Style{Color: color}) }
