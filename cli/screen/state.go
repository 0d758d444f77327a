// Package screen is the screen of gpuctl ui as a value: its content, how keys change it, and its lines. It knows neither a terminal nor a cluster.
package screen

import (
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// The views, in the order of their digits.
const (
	Jobs  = "jobs"
	Queue = "queue"
	Nodes = "nodes"
	Pools = "pools"
)

// Views are all views.
var Views = []string{Jobs, Queue, Nodes, Pools}

// Row is a row of a table. Its text may have more than one line.
type Row struct {
	Kind, Namespace, Name string
	Text                  string
}

func (r Row) isSame(other Row) bool {
	return r.Kind == other.Kind && r.Namespace == other.Namespace && r.Name == other.Name
}

// Table is what a view shows.
type Table struct {
	Header string
	Rows   []Row
	// Note is a note about the table, such as that it is empty.
	Note string
}

// Head is the content above all views.
type Head struct {
	Context, Namespace string
	// GPUs summarizes the free GPUs of each pool. GPUsRead is of when they are, zero where that is now.
	GPUs     []string
	GPUsRead time.Time
	// Read is when the content was last current, zero before the first read.
	Read time.Time
	// Trouble is why nothing newer could be read, "" if there is no problem.
	Trouble string
}

// Page is a text that is open above a view.
type Page struct {
	Title string
	Lines []string
	// Live says that the text grows. Its end stays in sight, unless the user has scrolled up.
	Live bool

	scrolledUp bool // the user has scrolled up from the end
	filter     string
	// found are the indexes of the lines that match the filter.
	found []int
	// top is the first visible line among those that match the filter.
	top int
}

// State is a screen.
type State struct {
	language      phrase.Language
	width, height int
	head          Head
	view          string
	all           bool
	table         Table
	filter        string
	// shown are the rows that match the filter; selected is the index of the marked one, and top that of the first visible one.
	shown         []Row
	selected, top int
	// marked is the marked row, which stays marked when rows are inserted before it. While no row is shown, it is the last marked one.
	marked Row
	page   *Page
	prompt prompt
	// answer is the answer to the last key, if it could not be executed.
	answer phrase.Text
}

// New returns a screen that shows jobs, of all namespaces or of one.
func New(all bool) State { return State{view: Jobs, all: all} }

// WithLanguage returns the screen in a language.
func (s State) WithLanguage(language phrase.Language) State {
	s.language = language
	return s
}

// View returns the current view, also while a page is open above it.
func (s State) View() string { return s.view }

// All reports whether jobs of all namespaces are shown.
func (s State) All() bool { return s.all }

// HasPage reports whether a page is open.
func (s State) HasPage() bool { return s.page != nil }

// Width returns the width of the screen in columns.
func (s State) Width() int { return s.width }

// WithSize returns the screen with another size.
func (s State) WithSize(width, height int) State {
	s.width, s.height = max(0, width), max(0, height)
	return s.clampPosition()
}

// WithHead returns the screen with another head.
func (s State) WithHead(head Head) State {
	s.head = head
	return s
}

// WithTable returns the screen with new content of its view. The selection is preserved.
func (s State) WithTable(table Table) State {
	s.table = table
	return s.applyFilter()
}

// WithPage returns the screen with an open page.
func (s State) WithPage(page Page) State {
	s.page = &page
	return s.clampPosition()
}

// WithLines returns the screen with new lines of its page.
func (s State) WithLines(lines []string) State {
	if s.page == nil {
		return s
	}
	page := *s.page
	page.Lines = lines
	page.findLines()
	s.page = &page
	return s.clampPosition()
}

// SelectedRow returns the marked row.
func (s State) SelectedRow() (Row, bool) {
	if s.selected >= len(s.shown) {
		return Row{}, false
	}
	return s.shown[s.selected], true
}

// applyFilter returns the screen with the rows that match its filter. If the marked row is not among them, the next one is marked, or the one in its
// position.
func (s State) applyFilter() State {
	has := newFilter(s.filter)
	s.shown = make([]Row, 0, len(s.table.Rows))
	for _, row := range s.table.Rows {
		if row.isSame(s.marked) {
			s.selected = len(s.shown)
		}
		if has(row.Text) {
			s.shown = append(s.shown, row)
		}
	}
	return s.clampPosition()
}

// clampPosition returns the screen with selection and scroll position in range.
func (s State) clampPosition() State {
	s.selected = max(0, min(s.selected, len(s.shown)-1))
	if row, ok := s.SelectedRow(); ok {
		s.marked = row
	}
	s.top = max(0, min(s.top, s.selected))
	for s.top < s.selected && s.rowsHeight(s.top, s.selected) > s.tableHeight() {
		s.top++
	}
	for s.top > 0 && s.rowsHeight(s.top-1, len(s.shown)-1) <= s.tableHeight() {
		s.top--
	}
	if s.page != nil {
		page := *s.page
		last := s.lastTop(page)
		if page.Live && !page.scrolledUp || page.top > last {
			page.top = last
		}
		page.top = max(0, page.top)
		s.page = &page
	}
	return s
}

// rowsHeight returns how many lines some rows take, at most one more than the screen has.
func (s State) rowsHeight(first, last int) int {
	height := 0
	for i := first; i <= last && height <= s.height; i++ {
		height += len(rowLines(s.shown[i]))
	}
	return height
}

func rowLines(row Row) []string { return strings.Split(strings.TrimSuffix(row.Text, "\n"), "\n") }

// newFilter returns a predicate for texts that contain the filter, ignoring case and colours.
func newFilter(filter string) func(text string) bool {
	if filter == "" {
		return func(string) bool { return true }
	}
	filter = strings.ToLower(filter)
	return func(text string) bool { return strings.Contains(strings.ToLower(stripStyles(text)), filter) }
}

// findLines updates the lines that match the filter.
func (p *Page) findLines() {
	p.found = nil
	if p.filter == "" {
		return
	}
	has := newFilter(p.filter)
	for i, line := range p.Lines {
		if has(line) {
			p.found = append(p.found, i)
		}
	}
}

// setFilter sets another filter. It keeps the first visible line in sight, or else the next matching one.
func (p *Page) setFilter(filter string) {
	first := p.top
	if p.filter != "" && p.top < len(p.found) {
		first = p.found[p.top]
	}
	p.filter = filter
	p.findLines()
	if p.top = first; filter != "" {
		p.top, _ = slices.BinarySearch(p.found, first)
	}
}

// lineCount returns the number of lines that match the filter; lineAt returns one of them.
func (p *Page) lineCount() int {
	if p.filter == "" {
		return len(p.Lines)
	}
	return len(p.found)
}

func (p *Page) lineAt(i int) string {
	if p.filter == "" {
		return p.Lines[i]
	}
	return p.Lines[p.found[i]]
}

// lastTop returns the first visible line when the end of the page is in sight.
func (s State) lastTop(page Page) int {
	count := page.lineCount()
	at, room := count, s.pageHeight()
	for at > 0 {
		if room -= len(ParseLine(page.lineAt(at - 1)).wrapTo(s.width)); room < 0 {
			break
		}
		at--
	}
	return max(0, min(at, count-1)) // of a line longer than the screen, its beginning is shown
}
