package screen

import (
	"fmt"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/cli/monospace"
)

// The least heights at which the head has all its lines, and at which it has one.
const (
	heightForAll = 14
	heightForOne = 8
)

// headRoom is how many lines are above the title.
func (s State) headRoom() int {
	switch {
	case s.height >= heightForAll:
		return 3
	case s.height >= heightForOne:
		return 1
	}
	return 0
}

// room is how many lines a page has: all but the head, the title and the last line.
func (s State) room() int { return max(1, s.height-s.headRoom()-2) }

// tableRoom is how many lines the rows of a table have.
func (s State) tableRoom() int { return max(1, s.room()-1) }

// Lines are the lines of the screen, as many as it has, none wider than it is.
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
		namespace = "all"
	}
	bold := Style{Bold: true}
	first := Line{{"Context: ", Style{}}, {s.head.Context, bold}, {"   Namespace: ", Style{}}, {namespace, bold}}
	clock := text("reading", Style{Color: yellow})
	if !s.head.Read.IsZero() {
		clock = text("read "+s.head.Read.Format(time.TimeOnly), Style{})
	}
	if s.head.Trouble != "" {
		clock = text("last "+strings.TrimSpace(clock.String()), Style{Color: yellow})
	}
	gap := s.width - clock.columns()
	first = first.cut(max(0, gap-1))
	first = append(first, Span{Text: strings.Repeat(" ", max(1, gap-first.columns()))})
	gpus := s.head.GPUs
	if gpus == "" {
		gpus = "-"
	}
	return []Line{append(first, clock...), Read("GPUs free: " + gpus), s.hints()}
}

// hints are the keys that do something here.
func (s State) hints() Line {
	if s.page != nil {
		return text("<esc> back  <j/k> move  </> filter  <r> read again  <?> help  <q> quit", Style{Color: cyan})
	}
	about := "<enter> describe  <y> yaml"
	if s.aboutJobs() {
		about = "<enter> why  <d> describe  <l> logs  <y> yaml  <0> all namespaces"
	}
	return text("<1-4> views  "+about+"  </> filter  <?> help", Style{Color: cyan})
}

// title names what is shown below it.
func (s State) title() Line {
	name, filter, count := s.view, s.filter, fmt.Sprintf(" (%d)", len(s.shown))
	if s.page != nil {
		name, filter, count = s.page.Title, s.page.filter, ""
		switch {
		case s.page.Live && s.page.left:
			count = " (<G> for its end)"
		case s.page.Live:
			count = " (live)"
		}
	}
	if s.head.Read.IsZero() && s.page == nil {
		count = ""
	}
	if filter != "" {
		count += " with " + filter
	}
	label := " " + name + count + " "
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

// note is what is said where no rows are.
func (s State) note() string {
	if len(s.table.Rows) > 0 {
		return nothingHas(s.filter)
	}
	return s.table.Note
}

func nothingHas(filter string) string { return "Nothing here has " + filter + ". Esc shows all." }

func (s State) pageLines() []Line {
	var out []Line
	switch {
	case len(s.page.Lines) == 0:
		return Line{{"Reading …", Style{}}}.fold(s.width)
	case s.page.count() == 0:
		return Read(nothingHas(s.page.filter)).fold(s.width)
	}
	for at := s.page.top; at < s.page.count() && len(out) < s.room(); at++ {
		out = append(out, Read(s.page.line(at)).fold(s.width)...)
	}
	return out
}

// lastLine is the prompt, or else what is wrong, or else what there is to say of the table.
func (s State) lastLine() Line {
	switch {
	case s.prompt.mark != "":
		line := s.prompt.mark + s.prompt.text
		typed := Line{{line, Style{}}, {" ", Style{Reverse: true}}}
		if views := named(s.prompt.text); s.prompt.mark == ":" && len(views) > 0 {
			typed = append(typed, Span{"  " + strings.Join(views, " "), Style{Color: cyan}})
		}
		if over := typed.columns() - s.width; over > 0 && s.prompt.mark == "/" {
			_, typed = typed.part(over) // the end is where one types
		}
		return typed
	case s.said != "":
		return text(s.said, Style{Color: yellow})
	case s.head.Trouble != "" && s.head.Read.IsZero():
		return Read(s.head.Trouble).colored(red)
	case s.head.Trouble != "":
		return Read("as of " + s.head.Read.Format(time.TimeOnly) + ": " + s.head.Trouble).colored(red)
	case s.page == nil && len(s.shown) > 0:
		return Read(s.table.Note).colored(yellow)
	}
	return nil
}

// colored is the line in one colour.
func (l Line) colored(color int) Line { return text(l.String(), Style{Color: color}) }
