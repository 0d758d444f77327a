// Package screen is the screen of gpuctl ui as a value: what is shown, what a key makes of it, and its lines. It knows
// neither a terminal nor a cluster.
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

// Row is what stands in a line of a table. Its text may have more lines, which belong to it.
type Row struct {
	Kind, Namespace, Name string
	Text                  string
}

func (r Row) is(other Row) bool {
	return r.Kind == other.Kind && r.Namespace == other.Namespace && r.Name == other.Name
}

// Table is what a view shows.
type Table struct {
	Header string
	Rows   []Row
	// Note is what there is to say of the table, such as that it is empty.
	Note string
}

// Head is what is told above all views.
type Head struct {
	Context, Namespace string
	// GPUs are those of the pools.
	GPUs string
	// Read is when what is shown was true, zero while nothing was read.
	Read time.Time
	// Trouble is why nothing newer was read, "" if nothing is in the way.
	Trouble string
}

// Page is a text that is open above a view.
type Page struct {
	Title string
	Lines []string
	// Live says that the text grows. Its end is kept in sight, unless the user has gone up.
	Live bool

	left   bool // the end
	filter string
	// found are the numbers of the lines that the filter leaves.
	found []int
	// top is the first line in sight, of those that the filter leaves.
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
	// shown are the rows that the filter leaves, of which selected is marked and top is the first in sight.
	shown         []Row
	selected, top int
	// marked is the row that stays so whatever comes before it. While none is shown it is the last that was.
	marked Row
	page   *Page
	prompt prompt
	// said answers the last key, where it could not be done.
	said phrase.Text
}

// New returns a screen that shows jobs, of all namespaces or of one.
func New(all bool) State { return State{view: Jobs, all: all} }

// In is the screen with its own words in a language.
func (s State) In(language phrase.Language) State {
	s.language = language
	return s
}

// View is the view that is shown, or that a page is open above.
func (s State) View() string { return s.view }

// All says that jobs of all namespaces are shown.
func (s State) All() bool { return s.all }

// HasPage says that a page is open.
func (s State) HasPage() bool { return s.page != nil }

// Width is how many columns the screen has.
func (s State) Width() int { return s.width }

// Resized is the screen on a terminal of another size.
func (s State) Resized(width, height int) State {
	s.width, s.height = max(0, width), max(0, height)
	return s.settled()
}

// WithHead is the screen with another head.
func (s State) WithHead(head Head) State {
	s.head = head
	return s
}

// WithTable is the screen with what its view has become. What is selected stays so.
func (s State) WithTable(table Table) State {
	s.table = table
	return s.sifted()
}

// WithPage is the screen with a page open.
func (s State) WithPage(page Page) State {
	s.page = &page
	return s.settled()
}

// WithLines is the screen with what the text of its page has become.
func (s State) WithLines(lines []string) State {
	if s.page == nil {
		return s
	}
	page := *s.page
	page.Lines = lines
	page.find()
	s.page = &page
	return s.settled()
}

// Selected is the row that is marked.
func (s State) Selected() (Row, bool) {
	if s.selected >= len(s.shown) {
		return Row{}, false
	}
	return s.shown[s.selected], true
}

// sifted is the screen with the rows that its filter leaves. Where the one that is marked is not among them, the next one is,
// or that which took its place.
func (s State) sifted() State {
	has := containing(s.filter)
	s.shown = make([]Row, 0, len(s.table.Rows))
	for _, row := range s.table.Rows {
		if row.is(s.marked) {
			s.selected = len(s.shown)
		}
		if has(row.Text) {
			s.shown = append(s.shown, row)
		}
	}
	return s.settled()
}

// settled is the screen with nothing marked or in sight that is not there.
func (s State) settled() State {
	s.selected = max(0, min(s.selected, len(s.shown)-1))
	if row, ok := s.Selected(); ok {
		s.marked = row
	}
	s.top = max(0, min(s.top, s.selected))
	for s.top < s.selected && s.heightOf(s.top, s.selected) > s.tableRoom() {
		s.top++
	}
	for s.top > 0 && s.heightOf(s.top-1, len(s.shown)-1) <= s.tableRoom() {
		s.top--
	}
	if s.page != nil {
		page := *s.page
		last := s.lastTop(page)
		if page.Live && !page.left || page.top > last {
			page.top = last
		}
		page.top = max(0, page.top)
		s.page = &page
	}
	return s
}

// heightOf is how many lines some rows take, up to one more than the screen has.
func (s State) heightOf(first, last int) int {
	height := 0
	for i := first; i <= last && height <= s.height; i++ {
		height += len(rowLines(s.shown[i]))
	}
	return height
}

func rowLines(row Row) []string { return strings.Split(strings.TrimSuffix(row.Text, "\n"), "\n") }

// containing reports whether a text has what is looked for, whatever its case and colours.
func containing(filter string) func(text string) bool {
	if filter == "" {
		return func(string) bool { return true }
	}
	filter = strings.ToLower(filter)
	return func(text string) bool { return strings.Contains(strings.ToLower(plain(text)), filter) }
}

// find looks up the lines that the filter leaves.
func (p *Page) find() {
	p.found = nil
	if p.filter == "" {
		return
	}
	has := containing(p.filter)
	for i, line := range p.Lines {
		if has(line) {
			p.found = append(p.found, i)
		}
	}
}

// sift has another filter, and keeps the line in sight that is the first there, or the next one that is left.
func (p *Page) sift(filter string) {
	first := p.top
	if p.filter != "" && p.top < len(p.found) {
		first = p.found[p.top]
	}
	p.filter = filter
	p.find()
	if p.top = first; filter != "" {
		p.top, _ = slices.BinarySearch(p.found, first)
	}
}

// count is how many lines the filter leaves, and line is one of those.
func (p *Page) count() int {
	if p.filter == "" {
		return len(p.Lines)
	}
	return len(p.found)
}

func (p *Page) line(i int) string {
	if p.filter == "" {
		return p.Lines[i]
	}
	return p.Lines[p.found[i]]
}

// lastTop is the first line in sight when the end of a page is.
func (s State) lastTop(page Page) int {
	count := page.count()
	at, room := count, s.room()
	for at > 0 {
		if room -= len(Read(page.line(at - 1)).fold(s.width)); room < 0 {
			break
		}
		at--
	}
	return max(0, min(at, count-1)) // of a line that is longer than the screen its beginning is seen
}
