package screen

import (
	"cmp"
	"strings"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// The minimum heights at which the head has all its lines, and at which it has one.
const (
	heightForAll = 14
	heightForOne = 8
)

// headRoom returns how many lines are above the title.
func (s State) headRoom() int {
	switch {
	case s.height >= heightForAll:
		return 3
	case s.height >= heightForOne:
		return 1
	}
	return 0
}

// room returns how many lines a page has: all except the head, the title and the last line.
func (s State) room() int { return max(1, s.height-s.headRoom()-2) }

// tableRoom returns how many lines the rows of a table have.
func (s State) tableRoom() int { return max(1, s.room()-1) }

// Lines returns the lines of the screen: as many as its height, none wider than its width.
func (s State) Lines() []Line {
	lines := s.headLines()[:s.headRoom()]
	lines = append(lines, s.title())
	body := s.tableLines()
	if s.page != nil {
		body = s.pageLines()
	}
	lines = append(lines, body[:min(len(body), s.room())]...)
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
		lines[i] = lines[i].clean().cut(s.width)
	}
	return lines
}

func (s State) headLines() []Line {
	namespace := s.head.Namespace
	if s.all {
		namespace = phrase.Of("all").In(s.language)
	}
	bold := Style{Bold: true}
	first := Line{
		{phrase.Of("Context: ").In(s.language), Style{}}, {s.head.Context, bold},
		{"   " + phrase.Of("Namespace: ").In(s.language), Style{}}, {namespace, bold},
	}
	clock := text(s.head.clock().In(s.language), Style{})
	if s.head.Read.IsZero() || s.head.Trouble != "" {
		clock = clock.colored(yellow)
	}
	gap := s.width - clock.columns()
	first = first.cut(max(0, gap-1))
	first = append(first, Span{Text: strings.Repeat(" ", max(1, gap-first.columns()))})
	gpus := phrase.Of("GPUs free: %s", cmp.Or(s.head.GPUs, "-")).In(s.language)
	return []Line{append(first, clock...), Read(gpus), text(s.hints().In(s.language), Style{Color: cyan})}
}

// title returns the line above the content.
func (s State) title() Line {
	label := " " + s.titleText().In(s.language) + " "
	const lead = 2
	rest := max(0, s.width-monospace.Columns(label)-lead)
	rule := Style{Color: cyan}
	return Line{{strings.Repeat("─", lead), rule}, {label, Style{Color: cyan, Bold: true}}, {strings.Repeat("─", rest), rule}}
}

func (s State) tableLines() []Line {
	var out []Line
	if s.table.Header != "" && len(s.shown) > 0 {
		out = append(out, Read(strings.TrimSuffix(s.table.Header, "\n")).bold())
	}
	if len(s.shown) == 0 {
		if note := s.note(); note != "" {
			return Read(note).fold(s.width)
		}
	}
	for i := s.top; i < len(s.shown) && len(out) < s.room(); i++ {
		for _, text := range rowLines(s.shown[i]) {
			line := Read(text)
			if i == s.selected {
				line = line.cut(s.width).reversed(s.width)
			}
			out = append(out, line)
		}
	}
	return out
}

// note returns the text shown in place of rows.
func (s State) note() string {
	if len(s.table.Rows) > 0 {
		return nothingHas(s.filter).In(s.language)
	}
	return s.table.Note
}

func (s State) pageLines() []Line {
	var out []Line
	switch {
	case len(s.page.Lines) == 0:
		return text(phrase.Of("Reading …").In(s.language), Style{}).fold(s.width)
	case s.page.count() == 0:
		return Read(nothingHas(s.page.filter).In(s.language)).fold(s.width)
	}
	for at := s.page.top; at < s.page.count() && len(out) < s.room(); at++ {
		out = append(out, Read(s.page.line(at)).fold(s.width)...)
	}
	return out
}

// lastLine returns the prompt, or else an error, or else a note about the table.
func (s State) lastLine() Line {
	switch {
	case s.prompt.mark != "":
		line := s.prompt.mark + s.prompt.text
		typed := Line{{line, Style{}}, {" ", Style{Reverse: true}}}
		if views := named(s.prompt.text); s.prompt.mark == ":" && len(views) > 0 {
			typed = append(typed, Span{"  " + strings.Join(views, " "), Style{Color: cyan}})
		}
		if over := typed.columns() - s.width; over > 0 && s.prompt.mark == "/" {
			_, typed = typed.part(over) // the end is where the user types
		}
		return typed
	case len(s.said) > 0:
		return text(s.said.In(s.language), Style{Color: yellow})
	case s.head.Trouble != "":
		return Read(s.head.wrong().In(s.language)).colored(red)
	case s.page == nil && len(s.shown) > 0:
		return Read(s.table.Note).colored(yellow)
	}
	return nil
}

// colored returns the line in one colour.
func (l Line) colored(color int) Line { return text(l.String(), Style{Color: color}) }
