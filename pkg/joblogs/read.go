package joblogs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// reader reads logs and hands out what it finds.
type reader struct {
	client  kubernetes.Interface
	options Options
	events  Events
	mu      sync.Mutex // held while calling events
}

// emitError is an error of the one who receives the lines.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

func (r *reader) emit(line Line) error {
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

func (r *reader) state(job inventory.Job) {
	if r.events.State == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.State(job)
}

func (r *reader) trouble(source Source, err error) {
	if r.events.Trouble == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.Trouble(source, err)
}

// opening says how to open the log of a run.
type opening struct {
	follow bool
	// tail is nil for all lines.
	tail  *int64
	since time.Time
}

// lines reads a log until its end and passes on every line.
func (r *reader) lines(ctx context.Context, source run, how opening, pass func(Line) error) error {
	options := &corev1.PodLogOptions{
		Container: source.Container, Follow: how.follow, Previous: r.options.Previous, Timestamps: true, TailLines: how.tail,
	}
	if !how.since.IsZero() {
		options.SinceTime = &metav1.Time{Time: how.since}
	}
	stream, err := r.client.CoreV1().Pods(r.options.Namespace).GetLogs(source.Pod, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", source.Pod, err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	buffer := bufio.NewReader(stream)
	for {
		text, err := buffer.ReadString('\n')
		if text != "" {
			if err := pass(parseLine(source.Source, text)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the log of pod %s: %w", source.Pod, err)
		}
	}
}

// parseLine takes off the time with which the node begins each line.
func parseLine(source Source, text string) Line {
	text = strings.TrimSuffix(text, "\n")
	stamp, rest, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return Line{Source: source, Text: text}
	}
	return Line{Source: source, Time: at, Text: rest}
}
