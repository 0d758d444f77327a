package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/server"
)

// clients is how many callers list at the same time.
const clients = 200

// many are clients that keep their connections, as programs do.
func many() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
}

// list asks once, reads the answer whole, and fails unless it is a list.
func list(ctx context.Context, client *http.Client, base, path, user string) error {
	r, err := request{path: path, user: user}.build(ctx, base)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return nil
}

var lists = []string{"/api/v1/jobs?namespace=team", "/api/v1/nodes", "/api/v1/pools", "/api/v1/queue?namespace=team"}

// counted counts the requests of a server to the API server.
func counted(t *testing.T) (*api, *atomic.Int64) {
	t.Helper()
	count := &atomic.Int64{}
	config := rest.CopyConfig(own)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			count.Add(1)
			return next.RoundTrip(r)
		})
	})
	before := own
	own = config
	defer func() { own = before }()
	return start(t, server.Options{ReviewTTL: time.Hour}), count
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestListsCostNoRequests lists 200 times at once: nothing fails, and the API server hears of none of it.
func TestListsCostNoRequests(t *testing.T) {
	a, count := counted(t)
	client := many()
	for _, path := range lists { // the first of each review a right
		if err := list(t.Context(), client, a.URL, path, member); err != nil {
			t.Fatal(err)
		}
	}
	before := count.Load()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for _, path := range lists {
				if err := list(t.Context(), client, a.URL, path, member); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	// A watch may be opened again meanwhile.
	if requests := count.Load() - before; requests > 10 {
		t.Errorf("%d lists cost %d requests", clients*len(lists), requests)
	}
}
