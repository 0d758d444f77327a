package serving

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answering serves answers of so many bytes as are asked for, to who says to be asking, within bounds.
func answering(t *testing.T, bounds *Answers) *httptest.Server {
	t.Helper()
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Query().Get("size"))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
		_ = EncodeInTurn(w, func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte("x"), size)); return err })
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bounds.ServeBounded(w, r, next, r.URL.Query().Get("who"), func(w http.ResponseWriter, err error) {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		})
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// unread asks for an answer, and reads nothing of it but its first line.
func unread(t *testing.T, server *httptest.Server, who string, size int) (connection net.Conn, line string) {
	t.Helper()
	transport, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	connection, err := tlsDial(t, server.Listener.Addr(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := fmt.Fprintf(connection, "GET /?who=%s&size=%d HTTP/1.1\r\nHost: x\r\n\r\n", who, size); err != nil {
		t.Fatal(err)
	}
	_ = connection.SetReadDeadline(time.Now().Add(time.Minute))
	first := make([]byte, 12)
	_, _ = io.ReadFull(connection, first) // what has not come is no answer
	return connection, string(first)
}

const large = 16 << 20 // more than the system takes of an answer that nobody reads

func whole(t *testing.T, server *httptest.Server, who string, size int) int {
	t.Helper()
	status, text := ask(t, server.Client(), http.MethodGet, fmt.Sprintf("%s/?who=%s&size=%d", server.URL, who, size), "")
	if status == http.StatusAccepted && len(text) != size {
		t.Errorf("%d bytes of an answer with %d", len(text), size)
	}
	return status
}

// TestWhoReadsNoAnswersWaitsForThemselves: a namespace that makes identities is one, and others have room, also for large answers.
func TestWhoReadsNoAnswersWaitsForThemselves(t *testing.T) {
	server := answering(t, NewAnswers(4*large, 2*large))
	for i := range 2 {
		if _, line := unread(t, server, fmt.Sprintf("system:serviceaccount:greedy:%d", i), large); !strings.HasSuffix(line, "202") {
			t.Fatalf("answer %d: %s", i, line)
		}
	}
	refused := make(chan string, 2+waitingAnswers)
	for i := range 2 + waitingAnswers {
		go func() {
			if _, line := unread(t, server, fmt.Sprintf("system:serviceaccount:greedy:more-%d", i), large); strings.HasSuffix(line, "429") {
				refused <- line
			}
		}()
	}
	for range 2 { // more than may wait
		<-refused
	}
	for _, who := range []string{"ada", "system:serviceaccount:other:a"} {
		if status := whole(t, server, who, large); status != http.StatusAccepted {
			t.Errorf("%s, who has read everything: status %d", who, status)
		}
	}
	for _, size := range []int{1000, modestAnswer} { // nor does a colleague wait for one like these
		if status := whole(t, server, "system:serviceaccount:greedy:colleague", size); status != http.StatusAccepted {
			t.Errorf("an answer of %d bytes: status %d", size, status)
		}
	}
}

// TestWhatIsNotTakenIsCutForOthers: under however many names, nobody keeps others from their answers for long; and what was cut
// does not look like the whole.
func TestWhatIsNotTakenIsCutForOthers(t *testing.T) {
	server := answering(t, NewAnswers(2*large, 2*large))
	var connections []net.Conn
	for i := range 2 {
		connection, _ := unread(t, server, fmt.Sprint("greedy", i), large)
		connections = append(connections, connection)
	}
	began := time.Now()
	if status := whole(t, server, "ada", large); status != http.StatusAccepted {
		t.Errorf("status %d after %s", status, time.Since(began))
	}
	if took := time.Since(began); took < takeTimeout || took > takeTimeout+chunkTime/2 {
		t.Errorf("it waited %s, want until one was not taken for %s", took, takeTimeout)
	}
	for i, connection := range connections {
		answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 202"), connection)), nil)
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err == nil && read != large {
			t.Errorf("%d bytes of answer %d look like the whole", read, i)
		}
	}
}

// TestASlowReaderGetsAll: what counts is that an answer is taken, and not when it has been.
func TestASlowReaderGetsAll(t *testing.T) {
	server := answering(t, NewAnswers(2*large, 2*large))
	connection, _ := unread(t, server, "slow", large)
	read := 0
	for buffer := make([]byte, large/8); read < large; {
		_ = connection.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := io.ReadFull(connection, buffer[:min(len(buffer), large-read)])
		if read += n; err != nil {
			t.Fatalf("after %d bytes: %v", read, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestAPlaceIsHeldUntilThereIsRoom: what was put together takes memory for as long.
func TestAPlaceIsHeldUntilThereIsRoom(t *testing.T) {
	var left, atWrite bool
	w := httptest.NewRecorder()
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		UntilSent(r.Context(), func() { left = true })
		atWrite = left
		_, _ = w.Write(make([]byte, 2*smallAnswer))
		if !left {
			t.Error("the place is held while the answer is written, as many bytes as it is")
		}
	})
	NewAnswers(large, large).ServeBounded(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), next, "ada", nil)
	if atWrite || w.Code != http.StatusOK || w.Body.Len() != 2*smallAnswer {
		t.Errorf("given back before: %t; status %d, %d bytes", atWrite, w.Code, w.Body.Len())
	}
}

// TestAStatusWithoutATextIsSent, once, and what a handler sets beside it.
func TestAStatusWithoutATextIsSent(t *testing.T) {
	w := httptest.NewRecorder()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusNoContent)
		w.WriteHeader(http.StatusOK)
	})
	NewAnswers(large, large).ServeBounded(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), next, "ada", nil)
	if w.Code != http.StatusNoContent || w.Header().Get("X") != "y" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
}

// TestAPartDoesNotLookLikeTheWhole: an answer of which some was sent, and for the rest of which there is no room, breaks off.
func TestAPartDoesNotLookLikeTheWhole(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			bounds := NewAnswers(1<<20, 1<<20)
			part := bytes.Repeat([]byte("x"), 2*smallAnswer)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				bounds.ServeBounded(w, r.WithContext(ctx), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if _, err := w.Write(part); err != nil {
						t.Error(err)
					}
					_ = http.NewResponseController(w).Flush()
					for i := range 8 { // of others
						leave, err := bounds.modest.Enter(r.Context(), strconv.Itoa(i), len(part))
						if err != nil {
							t.Error(err)
							return
						}
						defer leave()
					}
					cancel() // or it would wait for room
					if _, err := w.Write(part); err == nil {
						t.Error("there was room")
					}
				}), "a", func(http.ResponseWriter, error) { t.Error("it has begun") })
			}))
			server.EnableHTTP2 = protocol == "h2"
			server.StartTLS()
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if text, err := io.ReadAll(response.Body); err == nil {
				t.Errorf("%d bytes look like the whole", len(text))
			}
		})
	}
}
