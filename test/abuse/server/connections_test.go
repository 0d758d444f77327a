package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// some is how many of something to make: few as a part of all tests.
func some(few, many int) int {
	if all() {
		return many
	}
	return few
}

// dial opens a connection that speaks a protocol.
func (g *target) dial(protocol string) (*tls.Conn, error) {
	dialer := &tls.Dialer{NetDialer: from(attacker), Config: &tls.Config{RootCAs: g.ca, NextProtos: []string{protocol}}}
	connection, err := dialer.DialContext(g.Context(), "tcp", strings.TrimPrefix(g.URL, "https://"))
	if err != nil {
		return nil, err
	}
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return nil, errors.New("no TLS")
	}
	return secure, nil
}

// TestNoConnectionTakesTheServerFromOthers: those who say nothing, or say it slowly, or take it back at once.
func TestNoConnectionTakesTheServerFromOthers(t *testing.T) {
	makeSuspended(t, "quiet", training("quiet"))
	g := launch(t)
	idle := g.latency(100, closed())
	tests := map[string]struct {
		count int
		// do begins with a connection, and keeps it until ctx ends.
		do func(context.Context, *target, net.Conn)
		// protocol is HTTP/1.1 unless it is said.
		protocol string
	}{
		"connections on which nothing is asked": {count: some(500, 10_000), do: func(ctx context.Context, _ *target, _ net.Conn) { <-ctx.Done() }},
		"connections that asked once": {count: some(300, 5_000), do: func(ctx context.Context, _ *target, c net.Conn) {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			<-ctx.Done()
		}},
		"headers that come slowly": {count: some(300, 2_000), do: func(ctx context.Context, _ *target, c net.Conn) {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n")
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: x\r\n", i); err != nil {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
		}},
		"bodies that come slowly": {count: some(300, 2_000), do: func(ctx context.Context, _ *target, c net.Conn) {
			_, _ = fmt.Fprintf(c, "POST /api/v1/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n", tokens[attacker])
			_, _ = c.Write(bytes.Repeat([]byte(" "), 100<<10))
			for ctx.Err() == nil {
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
		}},
		"bodies in chunks without end": {count: some(50, 500), do: func(ctx context.Context, _ *target, c net.Conn) {
			_, _ = fmt.Fprintf(c, "POST /api/v1/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", tokens[attacker])
			for chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10)); ctx.Err() == nil; {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
		}},
		"streams of HTTP/2 that are reset at once": {count: some(4, 20), protocol: "h2", do: resetRapidly},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := &target{T: t, Server: g.Server, ca: g.ca}
			protocol := "http/1.1"
			if tc.protocol != "" {
				protocol = tc.protocol
			}
			ctx, end := context.WithCancel(t.Context())
			var group sync.WaitGroup
			gate := make(chan struct{}, 64)
			for range tc.count {
				gate <- struct{}{}
				group.Go(func() {
					connection, err := g.dial(protocol)
					<-gate
					if err != nil {
						return // the server may refuse it
					}
					defer func() { _ = connection.Close() }()
					defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
					tc.do(ctx, g, connection)
					<-ctx.Done()
				})
			}
			waited := g.latency(200, closed())
			t.Logf("%d connections; the neighbour waits %s, idle it is %s; the server takes %d MiB, at most it took %d",
				tc.count, waited, idle, g.resident("VmRSS")>>20, g.resident("VmHWM")>>20)
			end()
			group.Wait()
			if most := g.resident("VmHWM"); most > maxResident {
				t.Errorf("the server took %d MiB", most>>20)
			}
			if waited > 3*time.Second {
				t.Errorf("the neighbour waits %s", waited)
			}
		})
	}
}

// resetRapidly opens streams and takes each back before it is answered (CVE-2023-44487).
func resetRapidly(ctx context.Context, _ *target, c net.Conn) {
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	if framer.WriteSettings() != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for stream := uint32(1); ctx.Err() == nil && stream < uint32(some(10_000, 200_000)); stream += 2 {
		block.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":path", "/api/v1/jobs"}, {":scheme", "https"}, {":authority", "x"}, {"authorization", "Bearer " + tokens[attacker]}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into memory
		}
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}) != nil ||
			framer.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
			return // the server has had enough
		}
	}
}

// TestSlowReadersHoldLittle: each follows output that comes faster than it is read, and the server keeps little of it.
func TestSlowReadersHoldLittle(t *testing.T) {
	makeEndless(t)
	g := launch(t)
	before := g.resident("VmRSS")
	readers := some(40, 190)
	var group sync.WaitGroup
	ctx, end := context.WithTimeout(t.Context(), 25*time.Second)
	defer end()
	for range readers {
		group.Go(func() {
			connection, err := g.dial("http/1.1")
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = connection.Close() }()
			_, _ = fmt.Fprintf(connection, "GET /api/v1/jobs/endless/logs?namespace=team&follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", tokens[attacker])
			for some := make([]byte, 64); ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				if _, err := connection.Read(some); err != nil {
					return // it was too slow for the server
				}
			}
		})
	}
	waited := g.latency(200, closed())
	time.Sleep(5 * time.Second)
	t.Logf("%d readers; the neighbour waits %s; the server takes %d MiB more, at most it took %d", readers, waited, (g.resident("VmRSS")-before)>>20, g.resident("VmHWM")>>20)
	end()
	group.Wait()
	if most := g.resident("VmHWM"); most > maxResident {
		t.Errorf("the server took %d MiB", most>>20)
	}
}

// TestAPageThatIsNotTakenHoldsNoPlace: who asks for as many large pages of output as may be read at once, and takes none of
// them, can read all else, and so can everybody.
func TestAPageThatIsNotTakenHoldsNoPlace(t *testing.T) {
	makeSuspended(t, "quiet", training("quiet"))
	makePrinting(t, "pages", aPage)
	g := launch(t)
	for range 2 {
		connection, err := g.dial("http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if tcp, ok := connection.NetConn().(*net.TCPConn); !ok || tcp.SetReadBuffer(4<<10) != nil {
			t.Fatal("the connection takes in more than it should")
		}
		_, _ = fmt.Fprintf(connection, "GET /api/v1/jobs/pages/logs?namespace=team&tail=5000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", tokens[attacker])
		first := make([]byte, 1)
		if _, err := connection.Read(first); err != nil || string(first) != "H" {
			t.Fatalf("no answer begins: %q, error %v", first, err)
		}
	}
	browser := g.browser(attacker)
	defer browser.CloseIdleConnections()
	began := time.Now()
	status, text, err := g.send(t.Context(), browser, attacker, call{path: "/api/v1/jobs/quiet/explain?namespace=team"})
	if took := time.Since(began); err != nil || status != http.StatusOK || took > 10*time.Second {
		t.Errorf("status %d after %s, error %v: %.200s", status, took, err, text)
	}
}

// TestNothingIsServedButTheAPI, whoever asks: no profiles, no variables, and metrics only to who may read them.
func TestNothingIsServedButTheAPI(t *testing.T) {
	g := launch(t)
	browser := g.browser(neighbour)
	for _, path := range []string{
		"/debug", "/debug/", "/debug/pprof", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/vars", "/debug/requests",
		"/configz", "/flagz", "/statusz", "/api/v1/debug/pprof/", "//debug/pprof/heap", "/api/v1/../../debug/pprof/heap", "/.env", "/etc/passwd",
	} {
		for _, caller := range []string{"", neighbour} {
			status, text, err := g.send(t.Context(), browser, caller, call{path: path})
			want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusNotFound}[caller == ""]
			if err != nil || status != want {
				t.Errorf("%s as %q: status %d, want %d, error %v: %.200s", path, caller, status, want, err, text)
			}
		}
	}
	for caller, want := range map[string]int{"": http.StatusUnauthorized, neighbour: http.StatusForbidden} {
		if status, text, err := g.send(t.Context(), browser, caller, call{path: "/metrics"}); err != nil || status != want {
			t.Errorf("/metrics as %q: status %d, want %d, error %v: %.200s", caller, status, want, err, text)
		}
	}
}
