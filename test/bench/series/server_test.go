package series

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	apiserver "g8s.host/gpu-scheduler/pkg/server"
)

// parameter is one of a route.
var parameter = regexp.MustCompile(`\{[^}]+\}`)

// patience is how long a stream may stay open here.
const patience = 100 * time.Millisecond

// server is what gpuctl-server shows after each of its routes was asked: without a token, with one, of an API server that has nothing,
// and of one that refuses.
func server(t *testing.T) string {
	t.Helper()
	var refuses atomic.Bool
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			_, _ = w.Write([]byte(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"ada"}}}`))
		case strings.HasSuffix(r.URL.Path, "accessreviews") && !refuses.Load():
			_, _ = w.Write([]byte(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`))
		case refuses.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	t.Cleanup(cluster.Close)
	s, err := apiserver.New(&rest.Config{Host: cluster.URL, QPS: -1}, apiserver.Options{Version: "test", Rate: 1e6, Burst: 1e6, ReviewTTL: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, token string) *httptest.ResponseRecorder {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, method, parameter.ReplaceAllString(path, "x"), strings.NewReader("{}"))
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, request)
		return answer
	}
	routes := 0
	for path, methods := range paths(t, ask) {
		for method := range methods {
			routes++
			ask(strings.ToUpper(method), path, "")
			ask(strings.ToUpper(method), path, "a-token")
			refuses.Store(true)
			ask(strings.ToUpper(method), path, "another-token")
			refuses.Store(false)
		}
	}
	if routes < 50 {
		t.Fatalf("asked %d routes, so the count proves little", routes)
	}
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Bearer a-token")
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("reading the server's metrics: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// paths are the routes of the server's own document, with their methods.
func paths(t *testing.T, ask func(method, path, token string) *httptest.ResponseRecorder) map[string]map[string]any {
	t.Helper()
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(ask(http.MethodGet, "/openapi.json", "").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	return document.Paths
}
