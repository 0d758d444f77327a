package cli

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
)

// pageText gathers what a command prints, as lines; of much it keeps the end.
type pageText struct {
	changes *atomic.Int64

	mu  sync.Mutex
	all []string
	// part is a line that has not ended.
	part []byte
	// writes counts what came, and told how much of that was looked at.
	writes, told int
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
	for rest := data; len(rest) > 0; {
		room := pageLine - len(t.part)
		piece := rest[:min(len(rest), room+1)] // with the end of a line that just has room
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			end = min(len(piece), room)
		}
		t.part = append(t.part, piece[:end]...)
		if end == len(rest) {
			break
		}
		t.all, t.part = append(t.all, string(t.part)), t.part[:0]
		if rest[end] == '\n' {
			end++
		}
		rest = rest[end:]
	}
	if len(t.all) > 2*pageLines { // not at every line: what stays is copied
		t.all = slices.Clone(t.all[len(t.all)-pageLines:])
	}
	t.writes++
	t.changes.Add(1)
	return len(data), nil
}

// lines are those that are kept, if there are others than when they were looked at last.
func (t *pageText) lines() (lines []string, others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == t.writes {
		return nil, false
	}
	t.told = t.writes
	lines = slices.Clone(t.all[max(0, len(t.all)-pageLines):])
	if len(t.part) > 0 {
		lines = append(lines, string(t.part))
	}
	return lines, true
}
