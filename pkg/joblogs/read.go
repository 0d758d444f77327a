package joblogs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// reader reads logs and passes on their lines.
type reader struct {
	client  kubernetes.Interface
	options Options
	events  Events
	mu      sync.Mutex // held while calling events
}

// emitError is an error of the receiver of lines.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

func (r *reader) emitLine(line Line) error {
	if r.events.Line == nil || r.options.Match != nil && !r.options.Match.MatchString(line.Text) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.events.Line(line); err != nil {
		return &emitError{err}
	}
	return nil
}

func (r *reader) emitState(job inventory.Job) {
	if r.events.State == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.State(job)
}

func (r *reader) emitTrouble(source Source, err error) {
	if r.events.Trouble == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.Trouble(source, err)
}

// openOptions says how to open the log of a run.
type openOptions struct {
	follow bool
	// tail is nil for all lines.
	tail  *int64
	since time.Time
}

// readLines reads a log to its end and passes on every line.
func (r *reader) readLines(ctx context.Context, source run, how openOptions, pass func(Line) error) error {
	options := &corev1.PodLogOptions{
		Container: source.Container, Follow: how.follow, Previous: r.options.Previous, Timestamps: true, TailLines: how.tail,
	}
	if !how.since.IsZero() {
		options.SinceTime = &metav1.Time{Time: how.since}
	}
	stream, err := r.client.CoreV1().Pods(r.options.Namespace).GetLogs(source.Pod, options).Stream(ctx)
	if err != nil {
		return phrase.Errorf("reading the log of pod %s: %w", source.Pod, err)
	}
	defer stream.Close() //nolint:errcheck // opened for reading only
	err = eachLine(stream, func(text string, rest, cut bool) error {
		line := Line{Source: source.Source, Text: text}
		if !rest {
			line = parseLine(source.Source, text)
		}
		line.Cut = cut
		return pass(line)
	})
	var refused *passError
	switch {
	case errors.As(err, &refused):
		return refused.error
	case err != nil:
		return phrase.Errorf("reading the log of pod %s: %w", source.Pod, err)
	}
	return nil
}

// Parse passes on the lines of a stored log, in which each begins with its time.
func Parse(source Source, log io.Reader, pass func(Line) error) error {
	err := eachLine(log, func(text string, rest, cut bool) error {
		line := Line{Source: source, Text: text}
		if !rest {
			line = parseLine(source, text)
		}
		line.Cut = cut
		return pass(line)
	})
	var refused *passError
	if errors.As(err, &refused) {
		return refused.error
	}
	return err
}

// passError is an error of the receiver of lines, not of the log.
type passError struct{ error }

// eachLine passes on the lines of a log without their line breaks. A line longer than [MaxLine] is split: cut says that more of it follows, and rest
// that some of it came before. If the connection breaks, the incomplete line is not passed on: it is read again.
func eachLine(log io.Reader, pass func(text string, rest, cut bool) error) error {
	buffer := bufio.NewReaderSize(log, MaxLine)
	begun := make([]byte, 0, utf8.UTFMax) // the first bytes of a character that a split would have cut
	for rest := false; ; {
		data, err := buffer.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut && !errors.Is(err, io.EOF) {
			return err
		}
		whole := len(data)
		if cut {
			whole = wholeLetters(data)
		}
		text := strings.TrimSuffix(string(begun)+string(data[:whole]), "\n")
		begun = append(begun[:0], data[whole:]...)
		if len(data) > 0 || text != "" {
			if err := pass(text, rest, cut); err != nil {
				return &passError{err}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		rest = cut
	}
}

// wholeLetters returns the length of a text without an incomplete character at its end.
func wholeLetters(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

// parseLine removes the time with which the node begins each line.
func parseLine(source Source, text string) Line {
	stamp, rest, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return Line{Source: source, Text: text}
	}
	return Line{Source: source, Time: at, Text: rest}
}
