package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// bounded is an HTTP server with the bounds of connections, and nothing behind them.
func bounded(t *testing.T, clock func() time.Time, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.EnableHTTP2 = true
	BoundConnections(server.Config, 4096, clock)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// streams opens streams on a connection, and does something with each.
func streams(t *testing.T, server *httptest.Server, count int, then func(*http2.Framer, uint32) error) error {
	t.Helper()
	transport, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	connection, err := tlsDial(t, server.Listener.Addr(), config)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		return err
	}
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, connection) }()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for stream := uint32(1); stream < uint32(2*count); stream += 2 {
		block.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":path", "/"}, {":scheme", "https"}, {":authority", "x"}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into memory
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
			return err
		}
		if err := then(framer, stream); err != nil {
			return err
		}
	}
	return nil
}

// TestWhoTakesBackWhatTheyAskIsCut, and soon opens few connections: nearly nothing of what was taken back is begun. No request is answered
// before it is taken back, as on a machine that is busy with the client: such a one is no more than any other request.
func TestWhoTakesBackWhatTheyAskIsCut(t *testing.T) {
	var begun atomic.Int64
	server := bounded(t, time.Now, func(_ http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		<-r.Context().Done()
	})
	asked, since := 0, time.Now()
	for range 20 {
		_ = streams(t, server, 20_000, func(framer *http2.Framer, stream uint32) error { // it is cut, or net/http has had enough
			asked++
			return framer.WriteRSTStream(stream, http2.ErrCodeCancel)
		})
	}
	took := time.Since(since)
	t.Logf("%d streams were sent in %s, %d of them begun", asked, took, begun.Load())
	// What an address may take back, and of each connection what was under way when it was too much.
	most := int64(abandonFactor*(abandonBurst+abandonRate*took.Seconds())) + 20*maxParallel
	if begun.Load() > most {
		t.Errorf("%d of %d streams were begun, want at most %d", begun.Load(), asked, most)
	}
	client := server.Client()
	refused := 0
	for range 2 * probationRate {
		client.CloseIdleConnections()
		if response, err := get(t, client, server.URL); err != nil {
			refused++
		} else {
			_ = response.Body.Close()
		}
	}
	if refused == 0 {
		t.Error("its address opens connections as before")
	}
}

// TestWhoLeavesAPageIsNotCut: a browser takes back all that it has open, and asks again.
func TestWhoLeavesAPageIsNotCut(t *testing.T) {
	server := bounded(t, time.Now, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	open := make([]uint32, 0, maxParallel)
	err := streams(t, server, abandonBurst, func(framer *http2.Framer, stream uint32) error {
		if open = append(open, stream); len(open) < maxParallel {
			return nil
		}
		for _, stream := range open {
			if err := framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		open = open[:0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	response, err := get(t, server.Client(), server.URL+"/later")
	if err == nil {
		_ = response.Body.Close()
	} else if !errors.Is(err, context.DeadlineExceeded) { // the handler answers nothing
		t.Errorf("its address may not connect: %v", err)
	}
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}

// TestAnAddressOnProbation may open few connections for a while; all others are as free as ever.
func TestAnAddressOnProbation(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	a := newAddresses(func() time.Time { return now })
	come := func(host string, times int) (let int) {
		for range times {
			if a.mayConnect(host) {
				let++
			}
		}
		return let
	}
	if let := come("10.0.0.1", 2*connectBurst); let != connectBurst {
		t.Errorf("%d connections at once, want %d", let, connectBurst)
	}
	now = now.Add(time.Second)
	if let := come("10.0.0.1", 2*connectBurst); let != connectRate {
		t.Errorf("%d connections a second later, want %d", let, connectRate)
	}
	connection, other := net.Pipe()
	defer func() { _, _ = connection.Close(), other.Close() }()
	cut := peerFromContext(a.withPeer(t.Context(), &at{connection, "10.0.0.2:1"}))
	cut.cutConnection()
	if let := come("10.0.0.2", 100); let != probationRate {
		t.Errorf("%d connections on probation, want %d", let, probationRate)
	}
	if let := come("10.0.0.3", 100); let != 100 {
		t.Errorf("%d connections of another address, want all", let)
	}
	now = now.Add(probation)
	if let := come("10.0.0.2", 100); let != 100 {
		t.Errorf("%d connections after probation, want all", let)
	}
}

// at is a connection from somewhere.
type at struct {
	net.Conn
	from string
}

func (a *at) RemoteAddr() net.Addr { return text(a.from) }

// TestRefusalsWait, but not so many that they fill the memory, and not those of one address for another's.
func TestRefusalsWait(t *testing.T) {
	a := newAddresses(time.Now)
	var releases []func()
	for range maxHeldEach {
		release, ok := a.holdRefusal("10.0.0.1")
		if !ok {
			t.Fatalf("%d refusals wait, and no more may", len(releases))
		}
		releases = append(releases, release)
	}
	if _, ok := a.holdRefusal("10.0.0.1"); ok {
		t.Error("one more waits than may")
	}
	if release, ok := a.holdRefusal("10.0.0.2"); !ok {
		t.Error("another address may not wait")
	} else {
		release()
	}
	for _, release := range releases {
		release()
	}
	if a.held != 0 || a.lookupAddress("10.0.0.1").held != 0 {
		t.Errorf("%d refusals are counted that do not wait", a.held)
	}
	server := bounded(t, time.Now, func(w http.ResponseWriter, r *http.Request) {
		if DelayRefusal(r.Context()) {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	began := time.Now()
	response, err := server.Client().Get(server.URL) //nolint:noctx // it ends soon
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if took := time.Since(began); response.StatusCode != http.StatusTooManyRequests || took < refusalDelay {
		t.Errorf("status %d after %s, want a refusal after %s", response.StatusCode, took, refusalDelay)
	}
}

func tlsDial(t *testing.T, to net.Addr, config *tls.Config) (net.Conn, error) {
	return (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", to.String())
}
