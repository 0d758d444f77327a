package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/server"
)

// standstill is longer than any deadline that a library may leave on a connection without saying so.
const standstill = 7 * time.Second

// frozen stands between the server and the API server. While it is held, only reviews of who asks and what they may are answered.
type frozen struct {
	next http.RoundTripper
	hold *sync.RWMutex
}

func (f *frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "reviews") {
		f.hold.RLock()
		defer f.hold.RUnlock()
	}
	return f.next.RoundTrip(r)
}

// protocols are the ways in which requests come: over a connection that is kept, which for all requests of a protocol but those
// of HTTP/2 is one at a time.
type protocols struct {
	*testing.T
	root *x509.CertPool
	// plain and secure are addresses of the server, and proxied is that of a proxy before it.
	plain, secure, proxied string
	// own is what the proxy reaches the server with.
	own *http.Transport
}

// serveSlowly runs a server whose back end stands still while the lock is held, by its own [server.Server.Serve].
func serveSlowly(t *testing.T) (*protocols, *sync.RWMutex) {
	t.Helper()
	hold := &sync.RWMutex{}
	config := rest.CopyConfig(own)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &frozen{next, hold} })
	s, err := server.New(config, server.Options{Rate: 1e6, Burst: 1e6, Grace: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer certified.Close()
	p := &protocols{T: t, root: x509.NewCertPool()}
	p.root.AddCert(certified.Certificate())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	running.Go(func() {
		if err := s.RunCache(ctx); err != nil {
			t.Error(err)
		}
	})
	listen := func(secure *tls.Config) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := s.Serve(ctx, listener, secure); err != nil {
				t.Error(err)
			}
		})
		return listener.Addr().String()
	}
	p.plain = "http://" + listen(nil)
	p.secure = "https://" + listen(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates})
	p.own = &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute}
	target, err := url.Parse(p.plain)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: p.own, ErrorLog: log.New(io.Discard, "", 0),
	})
	p.proxied = proxy.URL
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close(); p.own.CloseIdleConnections() })
	return p, hold
}

// clients has a client of each protocol that uses one connection as long as it can.
func (p *protocols) clients() map[string]func() (*http.Client, string) {
	one := func(address string, secure *tls.Config) (*http.Client, string) {
		transport := &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, TLSClientConfig: secure, ForceAttemptHTTP2: secure != nil}
		p.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: 2 * time.Minute}, address
	}
	return map[string]func() (*http.Client, string){
		"HTTP/1.1": func() (*http.Client, string) { return one(p.plain, nil) },
		"HTTP/2": func() (*http.Client, string) {
			return one(p.secure, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.root})
		},
		"through a proxy": func() (*http.Client, string) { return one(p.proxied, nil) },
	}
}

// ask makes a request and reads the answer.
func ask(ctx context.Context, client *http.Client, address string, r request) (response, error) {
	built, err := r.build(ctx, address)
	if err != nil {
		return response{}, err
	}
	answer, err := client.Do(built)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, text}, err
}

// TestEveryRouteAnswersWhileTheAPIServerStandsStill: whatever a request waits for, it is answered with what came of it, and so is
// every request that comes on its connection later. A deadline of reading the body that stayed on the connection cut requests off
// after five seconds, and every later one was answered with 200 and nothing, and not carried out.
func TestEveryRouteAnswersWhileTheAPIServerStandsStill(t *testing.T) {
	document := start(t, server.Options{}).document()
	p, hold := serveSlowly(t)
	ready, address := p.clients()["HTTP/1.1"]()
	(&api{T: t}).eventually("the server to be ready", func() bool {
		got, err := ask(t.Context(), ready, address, request{path: "/readyz"})
		return err == nil && got.status == http.StatusOK
	})
	hold.Lock()
	time.AfterFunc(standstill, hold.Unlock)
	var group sync.WaitGroup
	for protocol, connect := range p.clients() {
		for _, o := range document.operations {
			s := samples[o.id]
			group.Go(func() {
				client, address := connect()
				what := fmt.Sprintf("%s, %s", protocol, o.id)
				got, err := ask(t.Context(), client, address, request{method: o.method, path: s.url(o.path), user: admin, body: s.body})
				// A right that was asked for while the API server stood still may not be known, and a mirror be old.
				if err != nil || len(got.body) == 0 || got.status != s.status && !slices.Contains([]int{503, 504}, got.status) {
					t.Errorf("%s: status %d, want %d, error %v: %.300q", what, got.status, s.status, err, got.body)
				}
				for i := range 3 {
					got, err := ask(t.Context(), client, address, request{
						method: http.MethodPost, path: "/api/v1/validate", user: admin, body: yamlOf(training("slow")),
					})
					if err != nil || got.status != http.StatusOK || !bytes.Contains(got.body, []byte(`"valid":true`)) {
						t.Errorf("%s: request %d after it on its connection: status %d, error %v: %.300q", what, i+1, got.status, err, got.body)
					}
				}
			})
		}
	}
	group.Wait()
}
