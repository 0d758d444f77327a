package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Names of keys that are no characters.
const (
	KeyUp        = "up"
	KeyDown      = "down"
	KeyPageUp    = "pgup"
	KeyPageDown  = "pgdn"
	KeyHome      = "home"
	KeyEnd       = "end"
	KeyEnter     = "enter"
	KeyEscape    = "esc"
	KeyTab       = "tab"
	KeyBackspace = "backspace"
	KeyInterrupt = "ctrl-c"
	KeyErase     = "ctrl-u"
)

// Actions that a key requests from the caller.
const (
	Nothing = ""
	// Quit ends the program.
	Quit = "quit"
	// Show reads what the screen now shows.
	Show = "show"
	// The pages: each is about the row of the action, except for Help.
	Why      = "why"
	Describe = "describe"
	YAML     = "yaml"
	Logs     = "logs"
	Help     = "help"
	// Again reads the open page again, and Close closes it.
	Again = "again"
	Close = "close"
)

// Action is what is to be done after a key.
type Action struct {
	Do  string
	Row Row
}

// digits select the views.
const digits = "1234"

// HandleKey returns the screen after a key, and the action to perform.
func (s State) HandleKey(key string) (State, Action) {
	s.answer = nil
	if key == KeyInterrupt {
		return s, Action{Do: Quit}
	}
	do := Action{}
	switch digit := strings.Index(digits, key); {
	case s.prompt.mark != "":
		s, do = s.handlePromptKey(key)
	case key == "q":
		do.Do = Quit
	case key == "?":
		do.Do = Help
	case digit >= 0 && len(key) == 1:
		s, do = s.showView(Views[digit])
	case s.page != nil:
		s, do = s.pageKey(key)
	default:
		s, do = s.tableKey(key)
	}
	return s.clampPosition(), do
}

// tableKey handles a key while a view is shown.
func (s State) tableKey(key string) (State, Action) {
	switch key {
	case ":", "/":
		s.prompt = prompt{mark: key, before: s.filter, row: s.marked}
	case KeyEscape:
		s.filter = ""
		return s.applyFilter(), Action{}
	case "0":
		s.all = !s.all
		return s.showView(s.view)
	case KeyEnter:
		if s.showsJobs() {
			return s.requestPage(Why)
		}
		return s.requestPage(Describe)
	case "d":
		return s.requestPage(Describe)
	case "y":
		return s.requestPage(YAML)
	case "w":
		return s.requestPage(Why)
	case "l":
		return s.requestPage(Logs)
	}
	s.selected = moveCursor(key, s.selected, s.tableHeight(), len(s.shown)-1)
	return s, Action{}
}

// showView switches to a view.
func (s State) showView(view string) (State, Action) {
	s.view, s.table, s.filter, s.selected, s.top, s.marked = view, Table{}, "", 0, 0, Row{}
	s.page = nil
	return s.applyFilter(), Action{Do: Show}
}

func (s State) showsJobs() bool { return s.view == Jobs || s.view == Queue }

// requestPage requests a page about the selected row.
func (s State) requestPage(what string) (State, Action) {
	row, ok := s.SelectedRow()
	if !ok {
		return s, Action{}
	}
	if (what == Why || what == Logs) && !s.showsJobs() {
		s.answer = phrase.Textf("only jobs have that")
		return s, Action{}
	}
	return s, Action{Do: what, Row: row}
}

// moveCursor returns the position after a movement key.
func moveCursor(key string, at, room, last int) int {
	switch key {
	case KeyUp, "k":
		at--
	case KeyDown, "j":
		at++
	case KeyPageUp:
		at -= max(1, room-1)
	case KeyPageDown, " ":
		at += max(1, room-1)
	case KeyHome, "g":
		at = 0
	case KeyEnd, "G":
		at = last
	}
	return max(0, min(at, last))
}

// pageKey handles a key while a page is open.
func (s State) pageKey(key string) (State, Action) {
	page := *s.page
	switch key {
	case KeyEscape:
		if page.filter != "" {
			page.setFilter("")
			s.page = &page
			return s, Action{}
		}
		s.page = nil
		return s, Action{Do: Close}
	case "r":
		return s, Action{Do: Again}
	case ":":
		s.prompt = prompt{mark: key}
		return s, Action{}
	case "/":
		s.prompt = prompt{mark: key, before: page.filter}
		return s, Action{}
	}
	last := s.lastTop(page)
	at := moveCursor(key, page.top, s.pageHeight(), last)
	switch {
	case at < page.top:
		page.scrolledUp = true
	case key == "G" || key == KeyEnd:
		page.scrolledUp = false
	}
	page.top = at
	s.page = &page
	return s, Action{}
}

// prompt is the user's input in the last line.
type prompt struct {
	// mark is its first character: ":" for a view, "/" for a filter, "" if there is no prompt.
	mark, text string
	// before is the filter that is restored when the prompt is cancelled.
	before string
	// row is the row that was marked.
	row Row
}

// promptLimit is the maximum length of the input.
const promptLimit = 200

// handlePromptKey handles a key in the prompt.
func (s State) handlePromptKey(key string) (State, Action) {
	switch {
	case key == KeyEnter:
		return s.submitPrompt()
	case key == KeyEscape:
		s = s.withFilter(s.prompt.before)
		s.prompt = prompt{}
		return s, Action{}
	case key == KeyTab && s.prompt.mark == ":":
		if views := matchingViews(s.prompt.text); len(views) > 0 {
			s.prompt.text = views[0]
		}
	case key == KeyErase:
		s.prompt.text = ""
	case key == KeyBackspace:
		if s.prompt.text == "" {
			s.prompt = prompt{}
			return s, Action{}
		}
		_, size := utf8.DecodeLastRuneInString(s.prompt.text)
		s.prompt.text = s.prompt.text[:len(s.prompt.text)-size]
	case utf8.RuneCountInString(key) == 1 && len(s.prompt.text) < promptLimit:
		if r, _ := utf8.DecodeRuneInString(key); unicode.IsPrint(r) {
			s.prompt.text += key
		}
	}
	if s.prompt.mark == "/" {
		s = s.withFilter(s.prompt.text)
	}
	return s, Action{}
}

// withFilter returns the screen with another filter for the visible view or page.
func (s State) withFilter(filter string) State {
	if s.prompt.mark != "/" {
		return s
	}
	if s.page == nil {
		s.filter, s.marked = filter, s.prompt.row
		return s.applyFilter()
	}
	page := *s.page
	page.setFilter(filter)
	s.page = &page
	return s
}

// submitPrompt submits the prompt.
func (s State) submitPrompt() (State, Action) {
	mark, word := s.prompt.mark, strings.TrimSpace(s.prompt.text)
	s.prompt = prompt{}
	switch {
	case mark == "/" || word == "":
		return s, Action{}
	case word == "q" || word == "quit" || word == "q!":
		return s, Action{Do: Quit}
	case word == Help || word == "?":
		return s, Action{Do: Help}
	}
	if views := matchingViews(word); len(views) > 0 {
		return s.showView(views[0])
	}
	s.answer = phrase.Textf("there is no view %s: %s", word, strings.Join(Views, ", "))
	return s, Action{}
}

// matchingViews returns the views whose names begin with a word.
func matchingViews(word string) []string {
	var out []string
	for _, view := range Views {
		if strings.HasPrefix(view, strings.ToLower(word)) {
			out = append(out, view)
		}
	}
	return out
}
