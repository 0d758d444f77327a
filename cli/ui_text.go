package cli

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// pageText gathers what a command prints, as lines; of much it keeps the end.
type pageText struct {
	changes *atomic.Int64

	mu   sync.Mutex
	all  []string
	part string
}

const (
	// pageLines is how many lines of a text are kept, and pageLine how many bytes of a line.
	pageLines = 5000
	pageLine  = 4 << 10
)

// Write implements io.Writer.
func (t *pageText) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part += string(data)
	for {
		line, rest, whole := strings.Cut(t.part, "\n")
		if len(line) > pageLine {
			line, rest, whole = t.part[:pageLine], t.part[pageLine:], true
		}
		if !whole {
			break
		}
		t.all, t.part = append(t.all, line), rest
	}
	if len(t.all) > 2*pageLines { // not at every line: what stays is copied
		t.all = slices.Clone(t.all[len(t.all)-pageLines:])
	}
	t.changes.Add(1)
	return len(data), nil
}

// lines are those that are kept.
func (t *pageText) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.all[max(0, len(t.all)-pageLines):])
	if t.part != "" {
		out = append(out, t.part)
	}
	return out
}
