package screen

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// nameOf returns the title of a view. Users type view names in English.
func nameOf(view string) phrase.Text {
	switch view {
	case Jobs:
		return phrase.Of("jobs")
	case Queue:
		return phrase.Of("queue")
	case Nodes:
		return phrase.Of("nodes")
	}
	return phrase.Of("pools")
}

// clock says when the content was read.
func (h Head) clock() phrase.Text {
	switch {
	case h.Read.IsZero():
		return phrase.Of("reading")
	case h.Trouble != "":
		return phrase.Of("last read %s", h.Read.Format(time.TimeOnly))
	}
	return phrase.Of("read %s", h.Read.Format(time.TimeOnly))
}

// wrong says what the problem is, and when the content was read.
func (h Head) wrong() phrase.Text {
	if h.Read.IsZero() {
		return phrase.Quote(h.Trouble)
	}
	return phrase.Of("as of %s: %s", h.Read.Format(time.TimeOnly), h.Trouble)
}

// hints lists the keys that are available.
func (s State) hints() phrase.Text {
	switch {
	case s.page != nil:
		return phrase.Of("<esc> back  <j/k> move  </> filter  <r> read again  <?> help  <q> quit")
	case s.aboutJobs():
		return phrase.Of("<1-4> views  <enter> why  <d> describe  <l> logs  <y> yaml  <0> all namespaces  </> filter  <?> help")
	}
	return phrase.Of("<1-4> views  <enter> describe  <y> yaml  </> filter  <?> help")
}

// titleText returns the title of the content.
func (s State) titleText() phrase.Text {
	var title phrase.Text
	filter := s.filter
	switch {
	case s.page != nil && s.page.Live && s.page.left:
		title, filter = phrase.Of("%s (<G> for its end)", s.page.Title), s.page.filter
	case s.page != nil && s.page.Live:
		title, filter = phrase.Of("%s (live)", s.page.Title), s.page.filter
	case s.page != nil:
		title, filter = phrase.Quote(s.page.Title), s.page.filter
	case s.head.Read.IsZero():
		title = nameOf(s.view)
	default:
		title = phrase.Of("%s (%d)", nameOf(s.view), len(s.shown))
	}
	if filter != "" {
		return phrase.Of("%s with %s", title, filter)
	}
	return title
}

func nothingHas(filter string) phrase.Text {
	return phrase.Of("Nothing here has %s. Esc shows all.", filter)
}
