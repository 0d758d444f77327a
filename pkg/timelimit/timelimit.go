// Package timelimit bounds the duration of operations, and returns an error with the message of the code that set the limit.
//
// A context with a deadline does not suffice: the rate limiter of Kubernetes' client anticipates the deadline and fails early, with an error about
// itself.
package timelimit

import (
	"context"
	"errors"
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Error says that an operation exceeded its time limit.
type Error struct {
	After time.Duration
	// What describes what had not happened by then, as a sentence.
	What phrase.Text
}

func (e *Error) Error() string { return e.Message().String() }

// Message returns the error in every language.
func (e *Error) Message() phrase.Text { return phrase.Textf("after %s, %s", e.After, e.What) }

// WithLimit returns a context that ends after a limit, with a description of what had not happened by then. The function releases it.
func WithLimit(ctx context.Context, limit time.Duration, what phrase.Text) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(&Error{After: limit, What: what}) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Explain returns the limit's [Error] in place of an error that it caused.
func Explain(ctx context.Context, err error) error {
	var late *Error
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}
