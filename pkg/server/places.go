package server

import (
	"context"
	"net/http"
	"sync"
)

// places are the slots that a request holds until it frees them or ends.
type places struct {
	mu     sync.Mutex
	leaves []func()
}

type placesKey struct{}

// givingBack frees all slots of a request when it ends. A handler that panics, or an answer that never starts, cannot free them. A leaked slot would
// be lost until the server restarts.
func givingBack(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken := &places{}
		defer taken.giveBack()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placesKey{}, taken)))
	})
}

// untilTheEnd registers a function that frees a slot when the request of ctx ends, at the latest. It must be safe to call twice.
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
