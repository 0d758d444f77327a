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

// Bounds of reviews, each of which is a request to the API server that a caller costs before it is known who that is.
const (
	// known bounds those of tokens that were good a while ago, and strangers all others, so that nobody who is known waits for
	// those who are not. Strangers share places by the address that they come from.
	reviewsAtOnce, reviewsEach, reviewsWaiting = 8, 2, 32
	// maxKnown is how many good tokens are remembered, each some hundred bytes, and knownFor for how long.
	maxKnown = 4096
	knownFor = time.Hour
	// wrongFor is how long a token that is not good holds its place: 20 of them in a second are an address's.
	wrongFor = 100 * time.Millisecond
)

// errCrowd says that too many callers wait to be asked about.
var errCrowd = errors.New("too many callers wait to be asked about")

// reviews asks who calls, about a few callers at a time.
type reviews struct {
	next             authenticator.Request
	known, strangers *fair.Gate
	// good are the tokens that were good, by their hashes.
	good *cache.LRUExpireCache
	// wrongFor is how long a token that is not good holds its place.
	wrongFor time.Duration
}

func newReviews(next authenticator.Request) *reviews {
	limits := fair.Limits{Total: reviewsAtOnce, Each: reviewsEach, Waiting: reviewsWaiting}
	return &reviews{
		next: next, known: fair.New(limits), strangers: fair.New(limits), good: cache.NewLRUExpireCache(maxKnown), wrongFor: wrongFor,
	}
}

// AuthenticateRequest implements authenticator.Request. Who shows no token is asked about nowhere.
func (v *reviews) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	token, ok := tokenOf(r)
	if !ok {
		return v.next.AuthenticateRequest(r)
	}
	gate, who := v.strangers, addressOf(r)
	_, isKnown := v.good.Get(token)
	if isKnown {
		gate, who = v.known, string(token[:])
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	leave, err := gate.Enter(ctx, who, 1)
	if err != nil {
		return nil, false, errCrowd
	}
	defer leave()
	response, ok, err := v.next.AuthenticateRequest(r)
	switch {
	case ok:
		v.good.Add(token, true, knownFor)
	case !isKnown:
		waitFor(ctx, v.wrongFor)
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

// tokenOf is the hash of what a request shows for a token, false if it shows none. It is taken off the request later.
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
