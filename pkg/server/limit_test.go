package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestARequestCountsAsWhatItWeighs: one that has the API server answer a dozen lists leaves less of the rate than one that is answered from memory.
func TestARequestCountsAsWhatItWeighs(t *testing.T) {
	for name, tc := range map[string]struct {
		burst, weight, answered int
		says                    string
	}{
		"one":                  {burst: 6, weight: 1, answered: 6, says: "at most 0.001 a second, "},
		"three":                {burst: 6, weight: 3, answered: 2, says: "at most 0.001 a second (this one counts as 3), "},
		"three of seven":       {burst: 7, weight: 3, answered: 2, says: "(this one counts as 3)"},
		"more than the burst":  {burst: 2, weight: 3, answered: 1, says: "(this one counts as 3)"},
		"a burst of one alone": {burst: 1, weight: 1, answered: 1, says: "too many requests"},
	} {
		t.Run(name, func(t *testing.T) {
			limits, answered := newLimiter(0.001, tc.burst), 0
			for range 10 {
				w := httptest.NewRecorder()
				next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered++ })
				limits.serveLimited(w, httptest.NewRequest(http.MethodGet, "/", nil), next, "caller a", 1, tc.weight)
				if w.Code == http.StatusTooManyRequests && !strings.Contains(w.Body.String(), tc.says) {
					t.Errorf("%s, want %q in it", w.Body, tc.says)
				}
			}
			if answered != tc.answered {
				t.Errorf("%d requests of 10 are answered, want %d", answered, tc.answered)
			}
		})
	}
}

// TestWhatCountsAsSeveralSaysSo in the document of the API, and is found by the path of a request.
func TestWhatCountsAsSeveralSaysSo(t *testing.T) {
	s, err := New(&rest.Config{Host: "127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/jobs/a/explain": 3, "/pods/a/explain": 3, "/jobs/a/logs": 3, "/jobs/a/logs/ws": 3, "/jobs/a": 1, "/nowhere": 1} {
		if got := s.weigh(httptest.NewRequest(http.MethodGet, Root+path, nil)); got != want {
			t.Errorf("%s counts as %d requests, want %d", path, got, want)
		}
	}
	for pattern := range s.weights {
		_, path, _ := strings.Cut(pattern, " ")
		if operation := s.api.OpenAPI().Paths[path].Get; operation == nil || !strings.Contains(operation.Description, "counts as 3 requests") {
			t.Errorf("the document does not say what a request to %s counts as", path)
		}
	}
}
