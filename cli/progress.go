package cli

import (
	"fmt"
	"sync"
	"time"
)

const (
	// quietFor is how long a command may take before it says what it waits for.
	quietFor = 2 * time.Second
	// redraw is how often the line is drawn.
	redraw   = 200 * time.Millisecond
	clearRow = "\r\x1b[K"
)

// startProgress shows on stderr what a command waits for, once that takes long: a line that is drawn anew on a
// terminal, and a single line elsewhere. The returned function ends it.
func startProgress(streams IOStreams, what string) (stop func()) {
	done := make(chan struct{})
	var finished sync.WaitGroup
	finished.Go(func() { drawProgress(streams, what, done) })
	return sync.OnceFunc(func() {
		close(done)
		finished.Wait()
	})
}

func drawProgress(streams IOStreams, what string, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-time.After(quietFor):
	}
	if !streams.ErrIsTerminal {
		fmt.Fprintln(streams.ErrOut, what+" …")
		<-done
		return
	}
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for waited := quietFor; ; waited += redraw {
		fmt.Fprintf(streams.ErrOut, "%s%s … %s", clearRow, what, waited.Truncate(time.Second))
		select {
		case <-done:
			fmt.Fprint(streams.ErrOut, clearRow)
			return
		case <-ticker.C:
		}
	}
}
