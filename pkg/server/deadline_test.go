package server

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/serving"
)

// TestNoRouteLeavesADeadlineOnItsConnection: huma has one for reading a body where a route has none, which stays on the connection:
// it ended requests that took longer, and every later one of the connection before it began.
func TestNoRouteLeavesADeadlineOnItsConnection(t *testing.T) {
	s, err := New(&rest.Config{Host: "127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	routes := 0
	for path, item := range s.api.OpenAPI().Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if operation == nil {
				continue
			}
			routes++
			if operation.BodyReadTimeout >= 0 {
				t.Errorf("%s %s: a deadline of %s for reading the body", operation.Method, path, operation.BodyReadTimeout)
			}
		}
	}
	if routes < 50 {
		t.Errorf("only %d routes were looked at", routes)
	}
}

// TestWhatIsNotAnsweredIsAFailure: the client of a request goes that waits for its refusal, and the handler that waits returns. What
// another request of HTTP/1 finds on its connection then is no 200, and no waiting either.
func TestWhatIsNotAnsweredIsAFailure(t *testing.T) {
	s, err := New(&rest.Config{Host: "127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tests := map[string]struct {
		end  func()
		want int
	}{
		"1 nothing is said": {func() {}, http.StatusInternalServerError},
		"2 nor begun":       {cancel, http.StatusServiceUnavailable},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		tests[name].end()
		w := httptest.NewRecorder()
		handler := serving.EnsureAnswered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), s.writeUnanswered)
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if w.Code != tests[name].want || w.Body.Len() == 0 || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: status %d, want %d: %s", name, w.Code, tests[name].want, w.Body)
		}
	}
}
