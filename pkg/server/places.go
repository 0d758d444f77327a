package server

import (
	"context"
	"net/http"
	"sync"
)

// heldSlots are the slots that a request holds until it frees them or ends.
type heldSlots struct {
	mu       sync.Mutex
	releases []func()
}

type heldSlotsKey struct{}

// withSlotRelease frees all slots of a request when it ends. A handler that panics, or an answer that never starts, cannot free them. A leaked slot would
// be lost until the server restarts.
func withSlotRelease(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken := &heldSlots{}
		defer taken.releaseAll()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), heldSlotsKey{}, taken)))
	})
}

// releaseAtEnd registers a function that frees a slot when the request of ctx ends, at the latest. It must be safe to call twice.
func releaseAtEnd(ctx context.Context, leave func()) {
	if taken, ok := ctx.Value(heldSlotsKey{}).(*heldSlots); ok {
		taken.mu.Lock()
		defer taken.mu.Unlock()
		taken.releases = append(taken.releases, leave)
	}
}

func (p *heldSlots) releaseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leave := range p.releases {
		leave()
	}
}
