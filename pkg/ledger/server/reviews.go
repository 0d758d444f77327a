package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"g8s.host/gpu-scheduler/pkg/fair"
)

// Bounds of reviews. Each is a request to the API server that an unauthenticated caller causes.
const (
	// known limits the reviews of tokens that were valid recently, and strangers those of all others, so that known callers do not wait for unknown
	// ones. Unknown callers share slots by address.
	reviewsAtOnce, reviewsEach, reviewsWaiting = 8, 2, 32
	// maxKnown bounds the remembered valid tokens, each of some hundred bytes, and knownFor their lifetime.
	maxKnown = 4096
	knownFor = time.Hour
	// wrongTokenHold is how long an invalid token holds its slot: an address can try 20 per second.
	wrongTokenHold = 100 * time.Millisecond
)

// errTooManyCallers means that too many callers wait for a review.
var errTooManyCallers = errors.New("too many callers wait to be asked about")

// reviews authenticates callers, a few at a time.
type reviews struct {
	next           authenticator.Request
	known, unknown *fair.Gate
	// goodTokens holds the hashes of valid tokens.
	goodTokens *cache.LRUExpireCache
	// wrongTokenHold is how long an invalid token holds its slot.
	wrongTokenHold time.Duration
}

func newReviews(next authenticator.Request) *reviews {
	limits := fair.Limits{Total: reviewsAtOnce, Each: reviewsEach, Waiting: reviewsWaiting}
	return &reviews{
		next: next, known: fair.New(limits), unknown: fair.New(limits), goodTokens: cache.NewLRUExpireCache(maxKnown), wrongTokenHold: wrongTokenHold,
	}
}

// AuthenticateRequest implements authenticator.Request. A request without a token causes no review.
func (v *reviews) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	token, ok := tokenOf(r)
	if !ok {
		return v.next.AuthenticateRequest(r)
	}
	gate, who := v.unknown, addressOf(r)
	_, isKnown := v.goodTokens.Get(token)
	if isKnown {
		gate, who = v.known, string(token[:])
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	leave, err := gate.Enter(ctx, who, 1)
	if err != nil {
		return nil, false, errTooManyCallers
	}
	defer leave()
	response, ok, err := v.next.AuthenticateRequest(r)
	switch {
	case ok:
		v.goodTokens.Add(token, true, knownFor)
	case !isKnown:
		waitFor(ctx, v.wrongTokenHold)
	}
	return response, ok, err
}

func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// tokenOf returns the hash of a request's token, false without one. The token is removed from the request later.
func tokenOf(r *http.Request) (hash [sha256.Size]byte, ok bool) {
	shown := append(r.Header.Values("Authorization"), r.Header.Values("Sec-Websocket-Protocol")...)
	if len(shown) == 0 {
		return hash, false
	}
	return sha256.Sum256([]byte(strings.Join(shown, "\n"))), true
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
