package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

// TestARetryDoesNotHoldTheTurnOfWhatItWaitsFor: a client that sends a large request in YAML again, while the first of
// the same key is carried out, waits for its answer. The first reads the YAML in it in a turn of its own, which it never
// got while the second had it: both hung for half a minute, and on two cores every other caller with them.
func TestARetryDoesNotHoldTheTurnOfWhatItWaitsFor(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets()}
	began, second := make(chan struct{}), make(chan struct{})
	var carriedOut atomic.Int32
	handler := s.withKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endDecoding(r.Context()) // as every route does before it begins
		if carriedOut.Add(1) == 1 {
			close(began)
			<-second
		}
		leave, err := acquireSlot(r.Context(), s.budgets.computing, 1)
		if err != nil {
			writeFailure(w, r, err)
			return
		}
		defer leave()
		w.WriteHeader(http.StatusCreated)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ctx = context.WithValue(ctx, callerKey{}, &access.Caller{User: &user.DefaultInfo{Name: "ml"}})
	send := func(status chan<- int) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/jobs", strings.NewReader("yamlContent: "+strings.Repeat("x", 2*smallBody)))
		r.Header.Set("Content-Type", yamlType)
		r.Header.Set(keyHeader, "key-1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		status <- w.Code
	}
	statuses := make(chan int, 2)
	go send(statuses)
	<-began
	go send(statuses)
	time.Sleep(100 * time.Millisecond) // the second waits for the first
	close(second)
	for range 2 {
		if got := <-statuses; got != http.StatusCreated {
			t.Errorf("answered with %d, want %d", got, http.StatusCreated)
		}
	}
	if n := carriedOut.Load(); n != 1 {
		t.Errorf("carried out %d times", n)
	}
}

// TestWhatIsNotReadIsNotInvalid: a text whose turn does not come is refused for that, and not called invalid.
func TestWhatIsNotReadIsNotInvalid(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets(), cache: newClusterCache()}
	ctx := context.WithValue(t.Context(), callerKey{}, &access.Caller{User: &user.DefaultInfo{Name: "ml"}})
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	in := &validateInput{}
	in.Body.YAMLContent = "# " + strings.Repeat("x", smallText) + "\nkind: pool\n"
	out, err := s.validateDocuments(ctx, in)
	if err == nil {
		t.Fatalf("it answers %+v", out.Body)
	}
	if failed := failureFromError(ctx, err); failed.status != http.StatusTooManyRequests {
		t.Errorf("status %d: %v", failed.status, err)
	}
}

// TestWhatIsStoredIsReadInTurn: who may change a job may have written anything there, up to the size of an object.
func TestWhatIsStoredIsReadInTurn(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets()}
	ctx := asCaller(t.Context(), "ml")
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	long := "# " + strings.Repeat("x", smallText) + "\nkind: training\n"
	if spec, err := s.parseSubmitted(ctx, "kind: training"); err != nil || spec["kind"] != "training" {
		t.Errorf("a short text waits: %v, error %v", spec, err)
	}
	if spec, err := s.parseSubmitted(ctx, long); err == nil {
		t.Errorf("a long text is read at once: %v", spec)
	}
	if docs, err := s.storedDocuments(ctx, long); err == nil {
		t.Errorf("a long text of a job that is changed is read at once: %v", docs)
	}
}

// TestLargeBodiesAreTakenApartOneAfterTheOther: sixteen requests at once, each of a megabyte of JSON, kept every core
// busy, and a neighbour waited eight times as long as on an idle server.
func TestLargeBodiesAreTakenApartOneAfterTheOther(t *testing.T) {
	kinds := map[string]struct {
		kind string
		size int
		most int32
		// wait is how long each is taken apart, if no four are at the same time.
		wait time.Duration
	}{
		"large JSON": {"application/json", 1 << 20, 1, 50 * time.Millisecond},
		"large YAML": {yamlType, 32 << 10, 1, 50 * time.Millisecond},
		"small JSON": {"application/json", 32 << 10, 4, 5 * time.Second},
	}
	for name, tc := range kinds {
		t.Run(name, func(t *testing.T) {
			s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets()}
			var now, most atomic.Int32
			handler := s.withKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				now.Add(1)
				for until := time.Now().Add(tc.wait); time.Now().Before(until) && most.Load() < 4; time.Sleep(time.Millisecond) {
					most.Store(max(most.Load(), now.Load()))
				}
				now.Add(-1)
				endDecoding(r.Context())
				w.WriteHeader(http.StatusOK)
			}))
			ctx, cancel := context.WithTimeout(asCaller(t.Context(), "ml"), 10*time.Second)
			defer cancel()
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/validate", strings.NewReader(`"`+strings.Repeat("x", tc.size)+`"`))
					r.Header.Set("Content-Type", tc.kind)
					handler.ServeHTTP(httptest.NewRecorder(), r)
				})
			}
			group.Wait()
			if got := most.Load(); got != tc.most {
				t.Errorf("%d were taken apart at once, want %d", got, tc.most)
			}
		})
	}
}

// TestTheLineIsPlayedInTurn: who asks for it again and again has one core, and others have theirs.
func TestTheLineIsPlayedInTurn(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets()}
	ctx, now := asCaller(t.Context(), "ml"), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	play := func(ctx context.Context) (entries int, err error) {
		line, err := s.buildQueue(ctx, oneWaits(now), nil, nil, now)
		return len(line.Entries), err
	}
	for range 2 { // the turn is given back
		if entries, err := play(ctx); entries != 1 || err != nil {
			t.Errorf("the line has %d entries, error %v", entries, err)
		}
	}
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := play(short); err == nil || failureFromError(short, err).status != http.StatusTooManyRequests {
		t.Errorf("while the caller has a core another line is played: error %v", err)
	}
}
