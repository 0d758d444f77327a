package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
)

// some is how many of something to make: few as a part of all tests.
func some(few, many int) int {
	if abuse.All() {
		return many
	}
	return few
}

// dial opens a connection that speaks a protocol.
func (g *target) dial(ctx context.Context, protocol string) (*tls.Conn, error) {
	dialer := &tls.Dialer{NetDialer: from(attacker), Config: &tls.Config{RootCAs: g.ca, NextProtos: []string{protocol}}}
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(g.URL, "https://"))
	if err != nil {
		return nil, err
	}
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return nil, errors.New("no TLS")
	}
	return secure, nil
}

// attack is what is done with many connections at a time.
type attack struct {
	few, many int
	// protocol is HTTP/1.1 unless it is said.
	protocol string
	// do begins with a connection, and keeps it until ctx ends.
	do func(context.Context, *target, net.Conn)
}

var attacks = map[string]attack{
	"connections on which nothing is asked": {few: 500, many: 10_000, do: func(ctx context.Context, _ *target, _ net.Conn) { <-ctx.Done() }},
	"connections that asked once": {few: 300, many: 5_000, do: func(ctx context.Context, _ *target, c net.Conn) {
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		<-ctx.Done()
	}},
	"headers that come slowly": {few: 300, many: 2_000, do: func(ctx context.Context, _ *target, c net.Conn) {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n")
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := fmt.Fprintf(c, "X-%d: x\r\n", i); err != nil {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}},
	"bodies that come slowly": {few: 300, many: 2_000, do: func(ctx context.Context, _ *target, c net.Conn) {
		_, _ = fmt.Fprintf(c, "POST /api/v1/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n", tokens[attacker])
		_, _ = c.Write(bytes.Repeat([]byte(" "), 100<<10))
		for ctx.Err() == nil {
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}},
	"bodies in chunks without end": {few: 50, many: 500, do: func(ctx context.Context, _ *target, c net.Conn) {
		_, _ = fmt.Fprintf(c, "POST /api/v1/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", tokens[attacker])
		for chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10)); ctx.Err() == nil; {
			if _, err := io.WriteString(c, chunk); err != nil {
				return
			}
		}
	}},
	"more requests than anybody may send": {few: 4, many: 20, do: func(ctx context.Context, g *target, c net.Conn) {
		_ = c.Close()
		browser := &http.Client{Transport: &http.Transport{DialContext: from(attacker).DialContext, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: g.ca}}}
		var group sync.WaitGroup
		for range 50 { // on one connection
			group.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = g.send(ctx, browser, attacker, call{path: "/api/v1/jobs"})
				}
			})
		}
		group.Wait()
	}},
	"readers of endless output, slow ones":     {few: 40, many: 190, do: readSlowly},
	"streams of HTTP/2 that are reset at once": {few: 4, many: 20, protocol: "h2", do: resetRapidly},
	"streams of HTTP/2 that are reset at once, on ever new connections": {few: 4, many: 20, protocol: "h2", do: func(ctx context.Context, g *target, c net.Conn) {
		for resetRapidly(ctx, g, c); ctx.Err() == nil; {
			if c, err := g.dial(ctx, "h2"); err == nil {
				resetRapidly(ctx, g, c)
				_ = c.Close()
			}
		}
	}},
}

// TestNoConnectionTakesTheServerFromOthers: those who say nothing, or say it slowly, or too often, or take it back at once.
func TestNoConnectionTakesTheServerFromOthers(t *testing.T) {
	bounds.SkipInShort(t)
	makeEndless(t)
	g := launch(t)
	for name, kind := range attacks {
		t.Run(name, func(t *testing.T) {
			g := &target{T: t, Server: g.Server, ca: g.ca}
			idle := g.latency(100, closed()) // what else the machine does changes from one minute to the next
			end := g.attackFromElsewhere(name)
			busy, began := g.cpu(), time.Now()
			waited := g.latency(300, closed())
			cores := (g.cpu() - busy).Seconds() / time.Since(began).Seconds()
			end()
			t.Logf("%d connections; the neighbour waits %s, idle it is %s; the server takes %.2f cores and %d MiB, at most it took %d",
				some(kind.few, kind.many), waited, idle, cores, g.resident("VmRSS")>>20, g.resident("VmHWM")>>20)
			if most := g.resident("VmHWM"); most > maxResident {
				t.Errorf("the server took %d MiB", most>>20)
			}
			if waited > max(3*time.Second, abuse.OthersWait()) {
				t.Errorf("the neighbour waits %s", waited)
			}
		})
	}
}

// Where the attackers of another process find what they need.
const (
	envAttack = "ABUSE_ATTACK"
	envURL    = "ABUSE_URL"
	envCA     = "ABUSE_CA"
	envToken  = "ABUSE_TOKEN"
)

// attackFromElsewhere attacks from a process that all others of the machine come before: what is measured is what the server
// makes of it, and not that the attackers have the cores. It ends when the function is called that it returns.
func (g *target) attackFromElsewhere(name string) (end func()) {
	g.Helper()
	attackers := exec.CommandContext(g.Context(), os.Args[0])
	attackers.Env = append(os.Environ(), envAttack+"="+name, envURL+"="+g.URL, envCA+"="+g.CAFile, envToken+"="+tokens[attacker])
	attackers.Stderr = os.Stderr
	began, err := attackers.StdoutPipe()
	if err == nil {
		err = attackers.Start()
	}
	if err != nil {
		g.Fatal(err)
	}
	if _, err := io.ReadFull(began, make([]byte, 1)); err != nil {
		g.Fatalf("the attackers do not begin: %v", err)
	}
	return func() {
		_ = attackers.Process.Kill()
		_ = attackers.Wait() // killed
	}
}

// attackAsToldTo is the process of the attackers. It does not return.
func attackAsToldTo() {
	const nice = 10
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)
	tokens[attacker] = os.Getenv(envToken)
	ca, err := os.ReadFile(os.Getenv(envCA))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	g := &target{Server: &sandbox.Server{URL: os.Getenv(envURL)}, ca: x509.NewCertPool()}
	g.ca.AppendCertsFromPEM(ca)
	kind := attacks[os.Getenv(envAttack)]
	gate := make(chan struct{}, 64)
	for i := range some(kind.few, kind.many) {
		if i == 1 {
			_, _ = os.Stdout.WriteString("!") // it has begun
		}
		gate <- struct{}{}
		go func() {
			connection, err := g.dial(context.Background(), cmp.Or(kind.protocol, "http/1.1"))
			<-gate
			if err == nil { // the server may refuse it
				kind.do(context.Background(), g, connection)
			}
		}()
	}
	select {}
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

// readSlowly follows output that comes faster than it is read.
func readSlowly(ctx context.Context, _ *target, c net.Conn) {
	_, _ = fmt.Fprintf(c, "GET /api/v1/jobs/endless/logs?namespace=team&follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", tokens[attacker])
	for some := make([]byte, 64); ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if _, err := c.Read(some); err != nil {
			return // it was too slow for the server
		}
	}
}

// TestAPageThatIsNotTakenHoldsNoPlace: who asks for as many large pages of output as may be read at once, and takes none of
// them, can read all else, and so can everybody; under several names they do not keep others from output either.
func TestAPageThatIsNotTakenHoldsNoPlace(t *testing.T) {
	bounds.SkipInShort(t)
	makeSuspended(t, "quiet", training("quiet"))
	makePrinting(t, "pages", aPage)
	g := launch(t)
	for _, name := range append([]string{attacker}, accomplices...) {
		for range 2 {
			g.askAndTakeNothing(name, "/api/v1/jobs/pages/logs?namespace=team&tail=5000", name == attacker)
		}
	}
	for caller, path := range map[string]string{
		attacker:  "/api/v1/jobs/quiet/explain?namespace=team",
		neighbour: "/api/v1/jobs/pages/logs?namespace=team&tail=5000",
	} {
		browser := g.browser(caller)
		defer browser.CloseIdleConnections()
		began := time.Now()
		status, text, err := g.send(t.Context(), browser, caller, call{path: path})
		if took := time.Since(began); err != nil || status != http.StatusOK || took > 20*time.Second {
			t.Errorf("%s: status %d after %s, error %v: %.200s", caller, status, took, err, text)
		} else {
			t.Logf("%s waits %s", caller, took)
		}
	}
}

// askAndTakeNothing asks for a page and does not read its answer, of which the beginning has come if it must.
func (g *target) askAndTakeNothing(caller, path string, begun bool) {
	g.Helper()
	connection, err := g.dial(g.Context(), "http/1.1")
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = connection.Close() })
	if tcp, ok := connection.NetConn().(*net.TCPConn); !ok || tcp.SetReadBuffer(4<<10) != nil {
		g.Fatal("the connection takes in more than it should")
	}
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, tokens[caller])
	first := make([]byte, 1)
	if !begun {
		_ = connection.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	if _, err := connection.Read(first); begun && (err != nil || string(first) != "H") {
		g.Fatalf("no answer begins: %q, error %v", first, err)
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
