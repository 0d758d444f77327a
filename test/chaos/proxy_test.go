package chaos

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// mishap is what happens to a request on its way to the API server, or to the answer on its way back.
type mishap string

const (
	nothing mishap = "nothing"
	// lostRequest never reaches the API server; the connection breaks.
	lostRequest mishap = "lost request"
	// lostAnswer is of a request that the API server carries out; the connection breaks.
	lostAnswer mishap = "lost answer"
	// late is an answer that takes longer than most.
	late mishap = "late answer"
	// twice is a request that arrives twice; the second answer is the one that is heard.
	twice mishap = "request sent twice"
	// overtaken is a request whose answer is lost and that arrives once more, after others.
	overtaken mishap = "request sent again later"
	// restart is of a request that the API server carries out before it goes away, so that nobody can be asked either.
	restart mishap = "restart"
	// broken is an error of a server between the two, of a request that is carried out.
	broken mishap = "bad gateway"
)

// lossyProxy stands between schedulers and the API server. It speaks plain HTTP to them, by which they send no token, and
// adds theirs.
type lossyProxy struct {
	*testing.T
	server   *httptest.Server
	upstream *url.URL
	client   *http.Client
	forward  *httputil.ReverseProxy

	mu     sync.Mutex
	random *rand.Rand
	temper func(*rand.Rand) mishap // of bindings
	counts map[mishap]int
	down   bool
	silent chan struct{}         // not nil while requests hang; closed when they may go on
	open   map[net.Conn]struct{} // from schedulers
	later  sync.WaitGroup
}

func startProxy(t *testing.T, seed uint64, temper func(*rand.Rand) mishap) *lossyProxy {
	t.Helper()
	path, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, names.SchedulerName)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &lossyProxy{
		T: t, upstream: upstream, client: &http.Client{Transport: transport}, temper: temper,
		random: rand.New(rand.NewPCG(seed, 0)), counts: map[mishap]int{}, open: map[net.Conn]struct{}{}, //nolint:gosec // repeatable
	}
	p.forward = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // watches
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ConnState = p.follow
	p.server.Start()
	t.Cleanup(func() {
		p.later.Wait()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// flags has a scheduler go through the proxy.
func (p *lossyProxy) flags() []string { return []string{"--master=" + p.server.URL} }

func (p *lossyProxy) follow(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		if p.down {
			_ = conn.Close()
			return
		}
		p.open[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.open, conn)
	}
}

// outage has the API server seem to restart: all connections break, and no other is accepted for a while.
func (p *lossyProxy) outage(long time.Duration) {
	p.mu.Lock()
	p.down = true
	for conn := range p.open {
		_ = conn.Close()
	}
	p.mu.Unlock()
	time.Sleep(long)
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
}

// silence has the API server seem to hang: requests are taken, and wait.
func (p *lossyProxy) silence(long time.Duration) {
	goOn := make(chan struct{})
	p.mu.Lock()
	p.silent = goOn
	p.mu.Unlock()
	time.Sleep(long)
	p.mu.Lock()
	p.silent = nil
	p.mu.Unlock()
	close(goOn)
}

// fate decides about a request.
func (p *lossyProxy) fate(r *http.Request) (mishap, time.Duration) {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return lostRequest, 0
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/binding") {
		return nothing, 0
	}
	what := p.temper(p.random)
	p.counts[what]++
	return what, time.Duration(p.random.IntN(1500)) * time.Millisecond
}

// ServeHTTP implements http.Handler.
func (p *lossyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, delay := p.fate(r)
	if what == nothing {
		p.forward.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || what == lostRequest {
		panic(http.ErrAbortHandler) // which breaks the connection
	}
	switch what {
	case late:
		time.Sleep(delay)
	case twice:
		p.send(r, body, io.Discard)
	}
	var answer bytes.Buffer
	status, kind := p.send(r, body, &answer)
	switch what {
	case overtaken:
		p.later.Go(func() {
			time.Sleep(delay)
			p.send(r, body, io.Discard)
		})
		panic(http.ErrAbortHandler)
	case lostAnswer:
		panic(http.ErrAbortHandler)
	case restart:
		p.later.Go(func() { p.outage(delay / 5) }) // watches take longer to come back than bindings
		panic(http.ErrAbortHandler)
	case broken:
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(answer.Bytes())
}

// send sends a request, for which nobody need wait.
func (p *lossyProxy) send(r *http.Request, body []byte, answer io.Writer) (status int, kind string) {
	target := *p.upstream
	target.Path, target.RawQuery = r.URL.Path, r.URL.RawQuery
	request, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		p.Error(err)
		return http.StatusBadGateway, ""
	}
	request.Header = r.Header.Clone()
	request.Header.Del("Accept-Encoding") // the transport's own
	response, err := p.client.Do(request)
	if err != nil {
		p.Error(err)
		return http.StatusBadGateway, ""
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(answer, response.Body); err != nil {
		p.Error(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type")
}

// happened is how often each mishap has befallen a binding.
func (p *lossyProxy) happened() map[mishap]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[mishap]int{}
	for what, count := range p.counts {
		counts[what] = count
	}
	return counts
}
