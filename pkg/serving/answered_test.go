package serving

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// say answers as a server would.
func say(w http.ResponseWriter, _ *http.Request, begun bool) {
	status := http.StatusInternalServerError
	if !begun {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, "no answer", status)
}

// ask sends a request over the one connection of a client, and returns what came of it.
func ask(t *testing.T, client *http.Client, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// TestNothingIsNoAnswer: whatever a handler leaves out is no success.
func TestNothingIsNoAnswer(t *testing.T) {
	tests := map[string]struct {
		handle     http.HandlerFunc
		wantStatus int
		wantText   string
		wantClose  bool
	}{
		"nothing":       {func(http.ResponseWriter, *http.Request) {}, 500, "no answer\n", true},
		"a header":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", "y") }, 500, "no answer\n", true},
		"early hints":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, 500, "no answer\n", true},
		"a status":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, "", false},
		"a text":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }, 200, "yes", false},
		"a copied text": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("yes")) }, 200, "yes", false},
	}
	for protocol, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		for name, tc := range tests {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				server := httptest.NewUnstartedServer(EnsureAnswered(tc.handle, say))
				server.EnableHTTP2 = major == 2
				server.StartTLS()
				defer server.Close()
				for range 2 {
					answer, err := server.Client().Get(server.URL)
					if err != nil {
						t.Fatal(err)
					}
					text, err := io.ReadAll(answer.Body)
					_ = answer.Body.Close()
					if err != nil || answer.ProtoMajor != major {
						t.Fatalf("%s, error %v", answer.Proto, err)
					}
					if answer.StatusCode != tc.wantStatus || string(text) != tc.wantText {
						t.Errorf("status %d %q, want %d %q", answer.StatusCode, text, tc.wantStatus, tc.wantText)
					}
					if major == 1 && answer.Close != tc.wantClose {
						t.Errorf("the connection is closed: %t, want %t", answer.Close, tc.wantClose)
					}
				}
			})
		}
	}
}

// TestAConnectionThatHasEndedCarriesNothing: the context of an HTTP/1 connection ends with the first error of reading from it, and
// whatever comes on it later would be given up at once, or be half done.
func TestAConnectionThatHasEndedCarriesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := false
	w := httptest.NewRecorder()
	EnsureAnswered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun = true }), say).
		ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodDelete, "/", nil))
	if begun || w.Code != http.StatusServiceUnavailable || w.Header().Get("Connection") != "close" {
		t.Errorf("begun: %t, status %d, Connection %q", begun, w.Code, w.Header().Get("Connection"))
	}
}

// TestWhoTakesBackOneRequestKeepsTheOthers: a stream of HTTP/2 that its client has ended has no answer, and ends no connection.
func TestWhoTakesBackOneRequestKeepsTheOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.ProtoMajor = 2
	w := httptest.NewRecorder()
	EnsureAnswered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }), say).ServeHTTP(w, r)
	if got := w.Header().Get("Connection"); w.Code != http.StatusInternalServerError || got != "" {
		t.Errorf("status %d, Connection %q", w.Code, got)
	}
}

// TestADeadlineOfReadingEndsWithTheRequestThatWasRead: an answer may take longer than the request might, and the connection goes on.
func TestADeadlineOfReadingEndsWithTheRequestThatWasRead(t *testing.T) {
	const inTime = 300 * time.Millisecond
	server := httptest.NewUnstartedServer(ReadInTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-time.After(3 * inTime):
			}
		}
		if err := r.Context().Err(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.RemoteAddr, body)
	})))
	server.Config.ReadTimeout = inTime
	server.Start()
	defer server.Close()
	for _, body := range []string{"", "text", strings.Repeat("x", 100<<10)} {
		connection := ""
		for _, path := range []string{"/", "/slow", "/", "/slow"} {
			status, text := ask(t, server.Client(), http.MethodPost, server.URL+path, body)
			on, got, _ := strings.Cut(text, " ")
			if status != http.StatusOK || got != body {
				t.Fatalf("%s with %d bytes: status %d: %.100s", path, len(body), status, text)
			}
			if connection != "" && on != connection {
				t.Errorf("%s with %d bytes came on another connection", path, len(body))
			}
			connection = on
		}
		server.Client().CloseIdleConnections()
	}
}

// TestARequestIsReadInTime: the deadline holds for as long as a request is being read.
func TestARequestIsReadInTime(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(ReadInTime(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})))
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if _, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("half a body was taken for a whole one")
		}
	case <-time.After(10 * time.Second):
		t.Error("a body that does not come was waited for")
	}
}
