package serving

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// theirs is a server that somebody else makes of a listener and a handler, as Kubernetes' libraries do.
func theirs(t *testing.T, most int, answer http.HandlerFunc) (address string, known *connections) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound, handler := BoundListener(listener, answer, most, time.Now)
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = bound
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	of, ok := bound.(*boundListener)
	if !ok {
		t.Fatal("it is another listener")
	}
	return listener.Addr().String(), of.known
}

// connect opens a connection from an address of this machine and sends what is given.
func connect(t *testing.T, from, to, send string) net.Conn {
	t.Helper()
	connection, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_, _ = io.WriteString(connection, send) // it may be closed already
	return connection
}

const plain = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// answer is the beginning of what comes on a connection, "" where it is closed.
func answer(connection net.Conn) string {
	_ = connection.SetReadDeadline(time.Now().Add(5 * time.Second))
	begin := make([]byte, len("HTTP/1.1 200"))
	_, _ = io.ReadFull(connection, begin)
	return strings.Trim(string(begin), "\x00")
}

func (c *connections) counted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// until waits for something that another goroutine does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

// TestAServerOfOthersHasFewConnections: those that ask nothing are closed, of the address that has most of them, and others are answered.
func TestAServerOfOthersHasFewConnections(t *testing.T) {
	const most = 8
	address, known := theirs(t, most, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	quiet := connect(t, "127.0.0.2", address, plain)
	if got := answer(quiet); got != "HTTP/1.1 200" {
		t.Fatalf("answered %q", got)
	}
	var greedy []net.Conn
	for range 5 * most {
		greedy = append(greedy, connect(t, "127.0.0.1", address, ""))
	}
	until(t, "the last of many is counted", func() bool { return known.counted() == known.mostOfAddress+1 })
	if got := answer(connect(t, "127.0.0.3", address, plain)); got != "HTTP/1.1 200" {
		t.Errorf("one of another address is answered %q", got)
	}
	_, err := io.WriteString(quiet, plain)
	rest := ""
	for got := answer(quiet); got != "" && !strings.Contains(rest, "HTTP/1.1 200"); got = answer(quiet) {
		rest += got
	}
	if err != nil || !strings.Contains(rest, "HTTP/1.1 200") {
		t.Errorf("the one that was there before is closed: %v, %q", err, rest)
	}
	for _, one := range greedy {
		_ = one.Close()
	}
	until(t, "those that went are counted no more", func() bool { return known.counted() == 2 })
}

// TestAConnectionIsBusyUntilItsAnswerIsTaken: it is not taken from who is answered, and who comes while all are busy goes.
func TestAConnectionIsBusyUntilItsAnswerIsTaken(t *testing.T) {
	const most, size = 4, 64 << 20
	var begun atomic.Int64
	address, known := theirs(t, most, func(w http.ResponseWriter, _ *http.Request) {
		begun.Add(1)
		part := make([]byte, 1<<20)
		for range size / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	var unread []net.Conn
	for i := range most {
		unread = append(unread, connect(t, []string{"127.0.0.1", "127.0.0.4"}[i%2], address, plain))
	}
	until(t, "all are being answered", func() bool { return begun.Load() == most })
	if got := answer(connect(t, "127.0.0.2", address, plain)); got != "" {
		t.Errorf("one more is answered %q", got)
	}
	if read, err := io.Copy(io.Discard, io.LimitReader(unread[0], size)); err != nil || read != size {
		t.Errorf("of an answer that was begun %d bytes came: %v", read, err)
	}
	until(t, "one is idle", func() bool {
		known.mu.Lock()
		defer known.mu.Unlock()
		for _, idle := range known.open["127.0.0.1"] {
			if idle {
				return true
			}
		}
		return false
	})
	if got := answer(connect(t, "127.0.0.2", address, plain)); got != "HTTP/1.1 200" {
		t.Errorf("when one has been taken, another one is answered %q", got)
	}
}

// TestARequestIsBoundedBeforeItIsKnownWhoAsks: a header without end takes no memory. Many requests on one connection may have as much together.
func TestARequestIsBoundedBeforeItIsKnownWhoAsks(t *testing.T) {
	var begun atomic.Int64
	address, known := theirs(t, 8, func(http.ResponseWriter, *http.Request) { begun.Add(1) })
	long := connect(t, "127.0.0.1", address, strings.TrimSuffix(plain, "\r\n")+"A: "+strings.Repeat("a", 2*maxHeader)+"\r\n\r\n")
	if got := answer(long); begun.Load() > 0 || strings.Contains(got, "200") {
		t.Errorf("%d were begun, answered %q", begun.Load(), got)
	}
	until(t, "it is closed", func() bool { return known.counted() == 0 })
	often := connect(t, "127.0.0.1", address, "")
	for i := range 3 {
		_, err := io.WriteString(often, strings.TrimSuffix(plain, "\r\n")+fmt.Sprintf("A: %s\r\n\r\n", strings.Repeat("a", maxHeader/2)))
		until(t, "it is answered", func() bool { return begun.Load() == int64(i+1) })
		if err != nil {
			t.Fatal(err)
		}
	}
}
