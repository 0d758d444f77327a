package cli

import (
	"fmt"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// progressDelay is how long a command may take before it says what it waits for.
	progressDelay = 2 * time.Second
	// redrawInterval is the interval at which the line is redrawn.
	redrawInterval = 200 * time.Millisecond
	clearRow       = "\r\x1b[K"
)

// startProgress shows on stderr what a command waits for, once that takes long. The returned function ends it.
func startProgress(streams IOStreams, what phrase.Text) (stop func()) {
	line := newStatusLine(streams)
	timer := time.AfterFunc(progressDelay, func() { line.setText(what.Localize(streams.outputLanguage()) + " …") })
	return sync.OnceFunc(func() {
		timer.Stop()
		line.endLine()
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
		l.idle.Go(l.redrawLoop)
	}
	return l
}

// setText changes the text of the line, and returns the previous text.
func (l *statusLine) setText(text string) (before string) {
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
	l.drawLine()
	return before
}

// clearLine removes the line from a terminal before other output. The next change draws it again.
func (l *statusLine) clearLine() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.io.ErrIsTerminal && l.text != "" && !l.ended {
		fmt.Fprint(rawOutput(l.io.ErrOut), clearRow)
		l.text = ""
	}
}

// endLine removes the line from a terminal. Later changes are not shown.
func (l *statusLine) endLine() { l.finishLine("") }

// endKeepingText ends the line and keeps its last text on a terminal, untruncated because nothing is drawn over it.
func (l *statusLine) endKeepingText() { l.finishLine(l.text + "\n") }

func (l *statusLine) finishLine(last string) {
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
		fmt.Fprint(rawOutput(l.io.ErrOut), clearRow+escapeControls(last))
	}
}

func (l *statusLine) redrawLoop() {
	ticker := time.NewTicker(redrawInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-ticker.C:
			l.mu.Lock()
			l.drawLine()
			l.mu.Unlock()
		}
	}
}

// drawLine writes the line on a terminal, truncated to its width: a wrapped line could not be redrawn.
func (l *statusLine) drawLine() {
	if l.text == "" || l.ended {
		return
	}
	elapsed := " " + time.Since(l.since).Truncate(time.Second).String()
	fmt.Fprint(rawOutput(l.io.ErrOut), clearRow+monospace.Truncate(oneLine(l.text), l.io.ErrWidth-len(elapsed)-1)+elapsed)
}
