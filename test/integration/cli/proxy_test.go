package cli

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// between stands between gpuctl and the API server, as the administrator.
type between struct {
	proxy *httputil.ReverseProxy
	// meddle, if not nil, may answer a request itself, which it then reports with true.
	meddle func(http.ResponseWriter, *http.Request, http.Handler) bool
	// writes counts the requests that may change something.
	writes atomic.Int32
}

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
		b.writes.Add(1)
	}
	if b.meddle != nil && b.meddle(w, r, b.proxy) {
		return
	}
	b.proxy.ServeHTTP(w, r)
}

// through makes the session's gpuctl talk to the API server through b.
func (s *session) through(b *between) {
	s.Helper()
	target, err := url.Parse(admin.Host)
	if err != nil {
		s.Fatal(err)
	}
	b.proxy = httputil.NewSingleHostReverseProxy(target)
	if b.proxy.Transport, err = rest.TransportFor(admin); err != nil {
		s.Fatal(err)
	}
	front := httptest.NewServer(b)
	s.Cleanup(front.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["front"] = &clientcmdapi.Cluster{Server: front.URL}
	config.Contexts["front"] = &clientcmdapi.Context{Cluster: "front"}
	config.CurrentContext = "front"
	text, err := clientcmd.Write(*config)
	if err != nil {
		s.Fatal(err)
	}
	s.kubeconfig = s.file("front", string(text))
}

// isCreationOf recognises the creation of a kind of object that takes place, in the plural.
func isCreationOf(plural string, r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+plural) && r.URL.Query().Get("dryRun") == ""
}

// isPatchOf recognises the patch of an object, as plural/name.
func isPatchOf(object string, r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+object)
}

// lost carries a request out and breaks the connection instead of answering.
func lost(r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func TestACreationWhoseAnswerIsLostIsReadBack(t *testing.T) {
	s := newSession(t)
	s.through(&between{meddle: func(_ http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if isCreationOf("deployments", r) || isCreationOf("services", r) {
			lost(r, next)
		}
		return false
	}})
	if got := s.expect(0, "", notebook("lab"), "create", "-f", "-"); got.stdout != "notebook/lab created\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.wantObjects(2)
}

func TestACreationWhoseAnswerIsLostAndWhichSomeoneElseMadeIsAConflict(t *testing.T) {
	s := newSession(t)
	other := newSession(t)
	other.namespace = s.namespace
	s.through(&between{meddle: func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !isCreationOf("jobs", r) {
			return false
		}
		other.expect(0, "", training("sft"), "create", "-f", "-")
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	}})
	s.expect(4, "already exists", training("sft"), "create", "-f", "-")
	s.wantObjects(1)
}

func TestApplyingWhatIsThereSendsNoWrite(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML, "create", "-f", "-")
	s.expect(0, "", strings.Replace(inferenceYAML, `B: "2"`, `B: "3"`, 1), "apply", "-f", "-")
	b := &between{}
	s.through(b)
	s.expect(0, "", strings.Replace(inferenceYAML, `B: "2"`, `B: "3"`, 1), "apply", "-f", "-")
	if got := b.writes.Load(); got != 0 {
		t.Errorf("%d writes were sent, want none", got)
	}
}
