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
	// redraw is how often the line is drawn.
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

// statusLine says on stderr what goes on. On a terminal it is one line, drawn again in place with the time since the
// last change; elsewhere each change is a line of its own.
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

// set changes what the line says, and returns what it said before.
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

// clear takes the line off a terminal, for what is printed beside it. It is drawn again when something changes.
func (l *statusLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.io.ErrIsTerminal && l.text != "" && !l.ended {
		fmt.Fprint(behind(l.io.ErrOut), clearRow)
		l.text = ""
	}
}

// end takes the line off a terminal. What is set later is not shown.
func (l *statusLine) end() { l.endWith("") }

// leave ends the line, and leaves what it said last on a terminal: in full, as nothing is drawn over it.
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

// draw writes the line on a terminal, cut to its width: one that wraps could not be drawn over.
func (l *statusLine) draw() {
	if l.text == "" || l.ended {
		return
	}
	elapsed := " " + time.Since(l.since).Truncate(time.Second).String()
	fmt.Fprint(behind(l.io.ErrOut), clearRow+monospace.Cut(oneLine(l.text), l.io.ErrWidth-len(elapsed)-1)+elapsed)
}
