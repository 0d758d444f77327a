package cli

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
)

// pageText collects the output of a command as lines; of long output it keeps the end.
type pageText struct {
	changes *atomic.Int64

	mu  sync.Mutex
	all []string
	// part is an unfinished line.
	part []byte
	// writes counts writes, and seen the writes already returned by changedLines.
	writes, seen int
}

const (
	// pageLines is the number of lines kept, and pageLine the maximum bytes per line.
	pageLines = 5000
	pageLine  = 4 << 10
)

// Write implements io.Writer.
func (t *pageText) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := data; len(rest) > 0; {
		room := pageLine - len(t.part)
		piece := rest[:min(len(rest), room+1)] // including a line end that just fits
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
	if len(t.all) > 2*pageLines { // not for every line, since the rest is copied
		t.all = slices.Clone(t.all[len(t.all)-pageLines:])
	}
	t.writes++
	t.changes.Add(1)
	return len(data), nil
}

// changedLines returns the kept lines if they have changed since the last call.
func (t *pageText) changedLines() (lines []string, others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == t.writes {
		return nil, false
	}
	t.seen = t.writes
	lines = slices.Clone(t.all[max(0, len(t.all)-pageLines):])
	if len(t.part) > 0 {
		lines = append(lines, string(t.part))
	}
	return lines, true
}
