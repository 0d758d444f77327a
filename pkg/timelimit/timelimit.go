// Package timelimit ends what takes longer than it may, and says so in the words of who set the limit.
//
// A context with a deadline does not serve for that: the rate limiter of Kubernetes' client foresees the deadline and
// fails before it, with an error about itself.
package timelimit

import (
	"context"
	"errors"
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Error says that something took longer than it may.
type Error struct {
	After time.Duration
	// What is what had not come by then, a sentence.
	What phrase.Text
}

func (e *Error) Error() string { return e.Says().String() }

// Says is the error in every language.
func (e *Error) Says() phrase.Text { return phrase.Of("after %s, %s", e.After, e.What) }

// With returns a context that ends after a limit, because of what had not come by then. The function frees it.
func With(ctx context.Context, limit time.Duration, what phrase.Text) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(&Error{After: limit, What: what}) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Explain returns the limit's [Error] in place of an error that came of it.
func Explain(ctx context.Context, err error) error {
	var late *Error
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}
