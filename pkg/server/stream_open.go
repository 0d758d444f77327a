package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/server/console"
)

// Reasons why the server ends a stream.
var (
	errStopping   = &unavailableError{"the server is stopping: connect again"}
	errTokenEnded = &refusal{status: http.StatusUnauthorized, code: "Unauthorized",
		text: "the token has expired or was revoked: connect again with a new one"}
)

// rightsCheck checks whether the caller may still read the content of a stream.
type rightsCheck func(context.Context) error

// openStreams limits the open streams of each caller. Each stream holds connections to the API server while it lasts, which the request rate alone
// does not bound.
type openStreams struct {
	max int

	mu   sync.Mutex
	open map[string]int
}

func newOpenStreams(most int) *openStreams { return &openStreams{max: most, open: map[string]int{}} }

// openStream counts one more stream of the caller until the returned function is called.
func (o *openStreams) openStream(ctx context.Context) (leave func(), err error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	user := caller.User.GetName()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[user] >= o.max {
		return nil, &refusal{status: http.StatusTooManyRequests, code: "TooManyRequests",
			text: fmt.Sprintf("you have %d streams open, and may have no more: close one first", o.max)}
	}
	o.open[user]++
	leave = sync.OnceFunc(func() { o.closeStream(user) })
	releaseAtEnd(ctx, leave)
	return leave, nil
}

func (o *openStreams) closeStream(user string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[user]--; o.open[user] == 0 {
		delete(o.open, user)
	}
}

// streamContext returns the context of a stream. It ends with [errStopping] when the server stops, with [errTokenEnded] when the token of the stream is
// no longer valid, with [errSessionOver] when the session of the page is over, with an [access.ActingError] when the server may no longer act for the caller, and with an [access.DeniedError] when the caller
// may no longer read the content. No stream outlives its rights.
func (s *Server) streamContext(parent context.Context, may rightsCheck) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	unhook, signedOut := context.AfterFunc(s.streams, func() { cancel(errStopping) }), func() bool { return true }
	if session := console.SessionOf(parent); session != nil {
		signedOut = context.AfterFunc(session, func() { cancel(context.Cause(session)) })
	}
	go s.reviewAgain(ctx, cancel, may)
	return ctx, func() { unhook(); signedOut(); cancel(nil) }
}

// reviewAgain periodically checks whether the token of a request is still valid and its owner still has the rights. It ignores errors in reaching the
// cluster. Reviews are cached for half of [Options.ReviewTTL] and repeated as often, which adds up to [Options.ReviewTTL].
func (s *Server) reviewAgain(ctx context.Context, cancel context.CancelCauseFunc, may rightsCheck) {
	review, ok := ctx.Value(reviewKey{}).(func(context.Context) error)
	if !ok {
		return
	}
	tick := time.NewTicker(s.options.ReviewTTL / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := review(ctx)
			switch {
			case errors.Is(err, access.ErrUnauthenticated):
				cancel(errTokenEnded)
				return
			case errors.As(err, new(*access.ActingError)):
				cancel(err)
				return
			}
			if err := may(ctx); errors.As(err, new(*access.DeniedError)) {
				cancel(err)
				return
			}
		}
	}
}
