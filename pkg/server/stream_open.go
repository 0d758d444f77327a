package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

// Why a stream ends that could go on.
var (
	errStopping   = &unavailableError{"the server is stopping: connect again"}
	errTokenEnded = &refusal{status: http.StatusUnauthorized, code: "Unauthorized",
		text: "the token has expired or was revoked: connect again with a new one"}
)

// openStreams counts the streams of each caller. Each holds connections to the API server for as long as it lasts, so
// that the rate of requests alone does not bound them.
type openStreams struct {
	max int

	mu   sync.Mutex
	open map[string]int
}

func newOpenStreams(most int) *openStreams { return &openStreams{max: most, open: map[string]int{}} }

// enter counts one more stream of the caller, until the function that it returns is called.
func (o *openStreams) enter(ctx context.Context) (leave func(), err error) {
	caller, err := callerOf(ctx)
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
	return sync.OnceFunc(func() { o.leave(user) }), nil
}

func (o *openStreams) leave(user string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[user]--; o.open[user] == 0 {
		delete(o.open, user)
	}
}

// supervised is the context of a stream. It ends with [errStopping] when the server stops, and with [errTokenEnded]
// when the token with which the stream was opened is not valid any more: no answer outlives it.
func (s *Server) supervised(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	unhook := context.AfterFunc(s.streams, func() { cancel(errStopping) })
	go s.reviewAgain(ctx, cancel)
	return ctx, func() { unhook(); cancel(nil) }
}

// reviewAgain asks from time to time whether the token of a request is still valid. That the cluster cannot be asked
// ends nothing: the token was valid.
func (s *Server) reviewAgain(ctx context.Context, cancel context.CancelCauseFunc) {
	review, ok := ctx.Value(reviewKey{}).(func(context.Context) error)
	if !ok {
		return
	}
	tick := time.NewTicker(s.options.ReviewTTL)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if errors.Is(review(ctx), access.ErrUnauthenticated) {
				cancel(errTokenEnded)
				return
			}
		}
	}
}
