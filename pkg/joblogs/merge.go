package joblogs

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits for lines read ahead: of each log, and of all logs together.
const (
	aheadOfEach = 64
	aheadOfAll  = 1024
)

// mergeLogs reads existing logs and passes on their lines ordered by time. An unreadable log does not affect the others; it is an error only if no
// log is readable.
func (r *reader) mergeLogs(ctx context.Context, runs []run) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := max(1, min(aheadOfEach, aheadOfAll/max(1, len(runs))))
	heads := make([]*head, len(runs))
	var group errgroup.Group
	for i, source := range runs {
		heads[i] = &head{lines: make(chan Line, ahead)}
		group.Go(func() error {
			defer close(heads[i].lines)
			heads[i].err = r.readLines(ctx, source, openOptions{tail: r.options.Tail, since: r.options.Since}, func(line Line) error {
				select {
				case heads[i].lines <- line:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			return nil
		})
	}
	err := r.mergeHeads(ctx, heads)
	cancel()
	_ = group.Wait() // it returns no error
	if err != nil {
		return err
	}
	return r.reportUnread(runs, heads)
}

// head is the log of one run and its next line.
type head struct {
	lines chan Line
	next  *Line
	err   error // valid when lines is closed
	last  time.Time
}

// loadNext loads the head's next line, and reports whether there is one.
func (h *head) loadNext() bool {
	if h.next != nil {
		return true
	}
	line, ok := <-h.lines
	if !ok {
		return false
	}
	h.next = &line
	if !line.Time.IsZero() { // the rest of a split line keeps the time of its beginning
		h.last = line.Time
	}
	return true
}

func (r *reader) mergeHeads(ctx context.Context, heads []*head) error {
	for {
		var first *head
		for _, h := range heads {
			if h.loadNext() && (first == nil || h.last.Before(first.last)) {
				first = h
			}
		}
		if err := ctx.Err(); err != nil || first == nil {
			return err
		}
		if err := r.emitLine(*first.next); err != nil {
			return err
		}
		first.next = nil
	}
}

// reportUnread reports which logs could not be read, and returns the errors if none could.
func (r *reader) reportUnread(runs []run, heads []*head) error {
	var failures []error
	for _, h := range heads {
		if h.err != nil {
			failures = append(failures, h.err)
		}
	}
	if len(failures) == len(heads) {
		return errors.Join(failures...)
	}
	for i, h := range heads {
		if h.err != nil {
			r.emitTrouble(runs[i].Source, h.err)
		}
	}
	return nil
}
