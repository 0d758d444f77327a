package cli

import (
	"fmt"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// quietFor is how long a command may take before it says what it waits for.
	quietFor = 2 * time.Second
	// redraw is the interval at which the line is redrawn.
	redraw   = 200 * time.Millisecond
	clearRow = "\r\x1b[K"
)

// startProgress shows on stderr what a command waits for, once that takes long. The returned function ends it.
func startProgress(streams IOStreams, what phrase.Text) (stop func()) {
	line := newStatusLine(streams)
	timer := time.AfterFunc(quietFor, func() { line.set(what.In(streams.language()) + " …") })
	return sync.OnceFunc(func() {
		timer.Stop()
		line.end()
	})
}

// statusLine reports progress on stderr. On a terminal it is one line, redrawn in place with the time since the last change; elsewhere each change is
// a separate line.
type statusLine struct {
	io   IOStreams
	done chan struct{}
	idle sync.WaitGroup

	mu    sync.Mutex
	text  string
	since time.Time
	ended bool
}

func newStatusLine(streams IOStreams) *statusLine {
	l := &statusLine{io: streams, done: make(chan struct{})}
	if streams.ErrIsTerminal {
		l.idle.Go(l.tick)
	}
	return l
}

// set changes the text of the line, and returns the previous text.
func (l *statusLine) set(text string) (before string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.text
	if text == before || l.ended {
		return before
	}
	l.text, l.since = text, time.Now()
	if !l.io.ErrIsTerminal {
		fmt.Fprintln(l.io.ErrOut, text)
		return before
	}
	l.draw()
	return before
}

// clear removes the line from a terminal before other output. The next change draws it again.
func (l *statusLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.io.ErrIsTerminal && l.text != "" && !l.ended {
		fmt.Fprint(behind(l.io.ErrOut), clearRow)
		l.text = ""
	}
}

// end removes the line from a terminal. Later changes are not shown.
func (l *statusLine) end() { l.endWith("") }

// leave ends the line and keeps its last text on a terminal, untruncated because nothing is drawn over it.
func (l *statusLine) leave() { l.endWith(l.text + "\n") }

func (l *statusLine) endWith(last string) {
	l.mu.Lock()
	ended := l.ended
	l.ended = true
	l.mu.Unlock()
	if ended {
		return
	}
	close(l.done)
	l.idle.Wait()
	if l.io.ErrIsTerminal && l.text != "" {
		fmt.Fprint(behind(l.io.ErrOut), clearRow+escaped(last))
	}
}

func (l *statusLine) tick() {
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-ticker.C:
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
		}
	}
}

// draw writes the line on a terminal, truncated to its width: a wrapped line could not be redrawn.
func (l *statusLine) draw() {
	if l.text == "" || l.ended {
		return
	}
	elapsed := " " + time.Since(l.since).Truncate(time.Second).String()
	fmt.Fprint(behind(l.io.ErrOut), clearRow+monospace.Cut(oneLine(l.text), l.io.ErrWidth-len(elapsed)-1)+elapsed)
}
