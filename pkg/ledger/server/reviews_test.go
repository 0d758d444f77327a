package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// reviewer is an API server that takes a while for each review, and knows one token.
type reviewer struct {
	mu            sync.Mutex
	asked         int
	atOnce, worst int
}

const (
	reviewTakes = 5 * time.Millisecond
	goodToken   = "Bearer good"
)

func (v *reviewer) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	v.mu.Lock()
	v.asked++
	v.atOnce++
	v.worst = max(v.worst, v.atOnce)
	v.mu.Unlock()
	time.Sleep(reviewTakes)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.atOnce--
	if r.Header.Get("Authorization") == goodToken {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ada"}}, true, nil
	}
	return nil, false, errors.New("invalid bearer token")
}

// seen is how often it was asked, and how often at once at the most.
func (v *reviewer) seen() (asked, worst int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked, v.worst
}

func showing(ctx context.Context, address, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.RemoteAddr = address + ":1234"
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	return r
}

// flood shows wrong tokens from an address for as long as ctx lasts, as many at once as there are senders.
func flood(ctx context.Context, v *reviews, address string, senders int) {
	for sender := range senders {
		go func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, _, err := v.AuthenticateRequest(showing(ctx, address, fmt.Sprintf("Bearer wrong-%s-%d-%d", address, sender, i))); errors.Is(err, errTooManyCallers) {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
}

// TestAFloodOfWrongTokens costs the API server little, and neighbours nothing: those whose token was good before, from wherever
// they come, and those who are new, from other addresses.
func TestAFloodOfWrongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &reviewer{}
		v := newReviews(asked)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(address, token string) (bool, time.Duration) {
			begin := time.Now()
			_, ok, _ := v.AuthenticateRequest(showing(ctx, address, token))
			return ok, time.Since(begin)
		}
		if ok, _ := ask("10.0.0.1", goodToken); !ok {
			t.Fatal("a good token is refused")
		}
		flood(ctx, v, "10.0.0.1", 50)
		time.Sleep(time.Second)
		before, _ := asked.seen()
		for range 10 {
			if ok, took := ask("10.0.0.1", goodToken); !ok || took > 2*reviewTakes {
				t.Errorf("who was known, at the same address, is known %t after %s", ok, took)
			}
			time.Sleep(time.Second)
		}
		after, worst := asked.seen()
		if reviews := (after - before) / 10; reviews > 2*int(time.Second/wrongTokenHold) || worst > reviewsAtOnce {
			t.Errorf("the API server was asked %d times a second, %d at once", reviews, worst)
		}
		stranger := newReviews(asked)
		stranger.unknown = v.unknown
		begin := time.Now()
		if _, ok, _ := stranger.AuthenticateRequest(showing(ctx, "10.0.0.2", goodToken)); !ok || time.Since(begin) > 2*reviewTakes {
			t.Errorf("who is new, at another address, is known %t after %s", ok, time.Since(begin))
		}
		cancel()
		time.Sleep(2 * reviewTimeout)
	})
}

// TestWhoShowsNothingWaitsForNobody, and is asked about nowhere.
func TestWhoShowsNothingWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviews(&reviewer{})
		ctx, cancel := context.WithCancel(t.Context())
		flood(ctx, v, "10.0.0.1", 100)
		time.Sleep(time.Second)
		begin := time.Now()
		_, _, _ = v.AuthenticateRequest(showing(ctx, "10.0.0.1", ""))
		if took := time.Since(begin); took > reviewTakes {
			t.Errorf("it took %s", took)
		}
		cancel()
		time.Sleep(2 * reviewTimeout)
	})
}

// TestACrowdIsToldSo, with what to do.
func TestACrowdIsToldSo(t *testing.T) {
	handler := (&Gate{authn: crowded{}, authz: &cluster{}}).withAuthentication(http.NotFoundHandler())
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+"jobs", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}

type crowded struct{}

func (crowded) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, errTooManyCallers
}
