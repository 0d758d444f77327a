package screen

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// viewName returns the title of a view. Users type view names in English.
func viewName(view string) phrase.Text {
	switch view {
	case Jobs:
		return phrase.Textf("jobs")
	case Queue:
		return phrase.Textf("queue")
	case Nodes:
		return phrase.Textf("nodes")
	}
	return phrase.Textf("pools")
}

// readTimeText says when the content was read.
func (h Head) readTimeText() phrase.Text {
	switch {
	case h.Read.IsZero():
		return phrase.Textf("reading")
	case h.Trouble != "":
		return phrase.Textf("last read %s", h.Read.Format(time.TimeOnly))
	}
	return phrase.Textf("read %s", h.Read.Format(time.TimeOnly))
}

// troubleText says what the problem is, and when the content was read.
func (h Head) troubleText() phrase.Text {
	if h.Read.IsZero() {
		return phrase.Quote(h.Trouble)
	}
	return phrase.Textf("as of %s: %s", h.Read.Format(time.TimeOnly), h.Trouble)
}

// keyHints lists the keys that are available.
func (s State) keyHints() phrase.Text {
	switch {
	case s.page != nil:
		return phrase.Textf("<esc> back  <j/k> move  </> filter  <r> read again  <?> help  <q> quit")
	case s.showsJobs():
		return phrase.Textf("<1-4> views  <enter> why  <d> describe  <l> logs  <y> yaml  <0> all namespaces  </> filter  <?> help")
	}
	return phrase.Textf("<1-4> views  <enter> describe  <y> yaml  </> filter  <?> help")
}

// titleText returns the title of the content.
func (s State) titleText() phrase.Text {
	var title phrase.Text
	filter := s.filter
	switch {
	case s.page != nil && s.page.Live && s.page.scrolledUp:
		title, filter = phrase.Textf("%s (<G> for its end)", s.page.Title), s.page.filter
	case s.page != nil && s.page.Live:
		title, filter = phrase.Textf("%s (live)", s.page.Title), s.page.filter
	case s.page != nil:
		title, filter = phrase.Quote(s.page.Title), s.page.filter
	case s.head.Read.IsZero():
		title = viewName(s.view)
	default:
		title = phrase.Textf("%s (%d)", viewName(s.view), len(s.shown))
	}
	if filter != "" {
		return phrase.Textf("%s with %s", title, filter)
	}
	return title
}

func noMatchText(filter string) phrase.Text {
	return phrase.Textf("Nothing here has %s. Esc shows all.", filter)
}
