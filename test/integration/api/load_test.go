package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
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
	// A watch may be opened anew meanwhile.
	if requests := count.Load() - before; requests > 10 {
		t.Errorf("%d lists cost %d requests", clients*len(lists), requests)
	}
}

// BenchmarkLists reports the 99th percentile of lists of 200 clients at once, each asking again as soon as it has its
// answer, against a server in this process: server and clients share the machine.
func BenchmarkLists(b *testing.B) {
	s, err := server.New(own, server.Options{Rate: 1e9, Burst: 1e9, ReviewTTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = s.Mirror(ctx) }()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	client := many()
	for list(ctx, client, web.URL, lists[0], member) != nil {
		time.Sleep(50 * time.Millisecond)
	}
	// think is what a client waits between two requests: 200 clients make 400 requests a second.
	const think = 500 * time.Millisecond
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for i := range clients {
		group.Go(func() {
			time.Sleep(think * time.Duration(i) / clients)
			for left.Add(-1) >= 0 {
				began := time.Now()
				if err := list(ctx, client, web.URL, lists[i%len(lists)], member); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				time.Sleep(think)
			}
		})
	}
	group.Wait()
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	fmt.Fprintf(os.Stderr, "%d lists of %d clients: p50 %s, p99 %s\n", len(took), clients, took[len(took)/2], took[len(took)*99/100])
}
