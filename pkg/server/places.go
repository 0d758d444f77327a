package server

import (
	"context"
	"net/http"
	"sync"
)

// places are what a request has taken of what all callers share, until it gives them back or ends.
type places struct {
	mu     sync.Mutex
	leaves []func()
}

type placesKey struct{}

// givingBack gives back what a request has taken when it ends, however it does: a handler that panics has no time to, nor
// has an answer that is never begun. One place that stays taken would be missed until the server starts again.
func givingBack(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken := &places{}
		defer taken.giveBack()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placesKey{}, taken)))
	})
}

// untilTheEnd has what gives a place back called when the request of ctx ends, at the latest. It must bear to be called twice.
func untilTheEnd(ctx context.Context, leave func()) {
	if taken, ok := ctx.Value(placesKey{}).(*places); ok {
		taken.mu.Lock()
		defer taken.mu.Unlock()
		taken.leaves = append(taken.leaves, leave)
	}
}

func (p *places) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leave := range p.leaves {
		leave()
	}
}
