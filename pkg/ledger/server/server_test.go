package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// rights are those of the cluster: users may list the pods of namespaces, "" for all, and may act for others.
var rights = map[string][]string{
	"ada": {"a", "c", "d"}, "reader": {"log a"}, "root": {"", "a", "b", "c"}, "server": {}, "clerk": {"log c", "log d"}, "auditor": {"log "}, "prometheus": {},
}

// begins are when the namespaces were created that are there.
var begins = map[string]time.Time{"a": noon.Add(-time.Hour), "b": noon.Add(-time.Hour), "c": noon.Add(30 * time.Minute)}

func begin(_ context.Context, namespace string) (time.Time, error) {
	if at, ok := begins[namespace]; ok {
		return at, nil
	}
	return time.Time{}, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
}

// cluster knows users by their tokens, which are their names, and fails when it is broken.
type cluster struct {
	authorizer.Authorizer
	broken bool
}

func (c *cluster) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, ok := rights[name]; !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
}

func (c *cluster) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if c.broken {
		return authorizer.DecisionNoOpinion, "", errors.New("no API server")
	}
	if a.GetVerb() == "impersonate" && a.GetUser().GetName() == "server" && a.GetName() != "root" {
		return authorizer.DecisionAllow, "", nil
	}
	if !a.IsResourceRequest() && a.GetVerb() == "get" && a.GetPath() == "/metrics" && a.GetUser().GetName() == "prometheus" {
		return authorizer.DecisionAllow, "", nil
	}
	for _, namespace := range rights[a.GetUser().GetName()] {
		if a.GetVerb() == "list" && a.GetResource() == "pods" && a.GetSubresource() == "" && a.GetNamespace() == namespace ||
			a.GetVerb() == "get" && a.GetSubresource() == "log" && "log "+a.GetNamespace() == namespace {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func served(t *testing.T) (http.Handler, *cluster) {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	err = s.Update(func(tx *store.Tx) error {
		for _, namespace := range []string{"a", "b"} {
			h := ledger.Holding{UID: namespace, Namespace: namespace, Pod: "p", Job: "j", JobUID: "J" + namespace, User: "u", Milli: 1000, From: noon, To: noon.Add(time.Hour)}
			job := ledger.Job{UID: "J" + namespace, Namespace: namespace, Name: "j", Status: "Succeeded", Created: noon, Finished: noon.Add(time.Hour)}
			if err := errors.Join(tx.Put(&h), tx.PutJob(&job), tx.SetMark("pods", store.Mark{Time: noon})); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	formerly(t, s)
	if err := s.PutOutput(ledger.Output{Namespace: "a", Created: noon, Job: "j", Pod: "p", PodUID: "u", Container: "main", Kept: noon, Text: "hello"}, 1<<20); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	return Handler(Options{
		Store: s, Gate: &Gate{authn: c, authz: c, namespaceBegin: begin}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon.Add(2 * time.Hour) },
	}), c
}

// formerly writes what a namespace has left that was deleted, and what is in the one that has its name now. Of each there is
// one job, a pod of it, and its output.
func formerly(t *testing.T, s *store.Store) {
	t.Helper()
	for i, uid := range []string{"old", "new"} {
		created, user := noon.Add(time.Duration(i)*30*time.Minute), []string{"former", "ada"}[i] // the new as old as its namespace
		ended := created.Add(10 * time.Minute)
		err := s.Update(func(tx *store.Tx) error {
			return errors.Join(
				tx.Put(&ledger.Holding{UID: "h" + uid, Namespace: "c", Pod: uid, Job: "j", JobUID: uid, User: user, Milli: 1000, From: created, To: ended}),
				tx.PutJob(&ledger.Job{UID: uid, Namespace: "c", Name: "j", User: user, Status: "Succeeded", Created: created, Finished: ended}))
		})
		output := ledger.Output{Namespace: "c", Job: "j", JobUID: uid, Pod: uid, PodUID: uid, Container: "main", Created: created, Kept: ended, Text: uid + " text"}
		if err := errors.Join(err, s.PutOutput(output, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhoLearnsWhat(t *testing.T) {
	handler, c := served(t)
	tests := map[string]struct {
		who, as, path string
		broken        bool
		status        int
		says          string // in the answer
		not           string // not in it
	}{
		"a user of the namespace":                 {who: "ada", path: "usage?namespace=a&by=namespace", status: 200, says: `"namespace":"a"`, not: `"namespace":"b"`},
		"all namespaces, of some":                 {who: "ada", path: "usage", status: 403, says: "all namespaces"},
		"all namespaces, of all":                  {who: "root", path: "usage?by=namespace", status: 200, says: `"namespace":"b"`},
		"two namespaces, one of others":           {who: "ada", path: "usage?namespace=a&namespace=b", status: 403, says: "namespace b"},
		"nobody":                                  {who: "eve", path: "usage?namespace=a", status: 401, says: "token or a certificate"},
		"jobs of the namespace":                   {who: "ada", path: "jobs?namespace=a", status: 200, says: `"uid":"Ja"`, not: "Jb"},
		"jobs of others":                          {who: "ada", path: "jobs?namespace=b", status: 403},
		"one job":                                 {who: "ada", path: "jobs/a/Ja", status: 200, says: `"holdings":[{`},
		"one job of others":                       {who: "ada", path: "jobs/b/Jb", status: 403},
		"one job of others, by another namespace": {who: "ada", path: "jobs/a/Jb", status: 404},
		"for another, who may":                    {who: "server", as: "ada", path: "usage?namespace=a", status: 200},
		"for another, in a namespace of others":   {who: "server", as: "ada", path: "usage?namespace=b", status: 403},
		"for one for whom it may not":             {who: "server", as: "root", path: "usage", status: 403},
		"for another, by one who may not":         {who: "ada", as: "root", path: "usage", status: 403},
		"the cluster does not answer":             {who: "ada", path: "usage?namespace=a", broken: true, status: 503, says: "try again"},
		"by something else":                       {who: "ada", path: "usage?namespace=a&by=team", status: 400, says: "gpu-type"},
		"no time":                                 {who: "ada", path: "usage?namespace=a&since=monday", status: 400, says: "since"},
		"an end before the beginning":             {who: "ada", path: "usage?namespace=a&since=2026-11-01T13:00:00Z&until=2026-11-01T12:00:00Z", status: 400},
		"a beginning in the future":               {who: "ada", path: "usage?namespace=a&since=2027-01-01T00:00:00Z", status: 400},
		"no name of a namespace":                  {who: "ada", path: "usage?namespace=a%00b", status: 400},
		"too many namespaces":                     {who: "ada", path: "usage?" + strings.Repeat("namespace=a&", 201), status: 400, says: "at most 200"},
		"too many jobs":                           {who: "ada", path: "jobs?namespace=a&limit=1000000", status: 400},
		"runs of the namespace":                   {who: "ada", path: "runs?namespace=a", status: 200, says: `{"items":[{"namespace":"a","user":"u","pool":"","gpus":1,"seconds":3600}]}`},
		"runs of others":                          {who: "ada", path: "runs?namespace=b", status: 403},
		"runs of all":                             {who: "root", path: "runs", status: 200, says: `"namespace":"b"`},
		"runs of a time without any":              {who: "ada", path: "runs?namespace=a&since=2026-11-01T13:30:00Z", status: 200, says: `{"items":[]}`},
		"runs since no time":                      {who: "ada", path: "runs?namespace=a&since=monday", status: 400, says: "since"},
		"one of many runs":                        {who: "root", path: "runs?limit=1", status: 200, says: `"more":true`},
		"too many runs":                           {who: "ada", path: "runs?namespace=a&limit=1000000", status: 400, says: "limit"},
		"output":                                  {who: "reader", path: "output/a/j", status: 200, says: "hello"},
		"output, of who may list pods alone":      {who: "ada", path: "output/a/j", status: 403, says: "get the output of pods of namespace a"},
		"output of others":                        {who: "reader", path: "output/b/j", status: 403},
		"usage, of who may read output alone":     {who: "reader", path: "usage?namespace=a", status: 403},
		"a path that is not":                      {who: "ada", path: "nothing", status: 404},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c.broken = tc.broken
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+tc.path, nil)
			r.Header.Set("Authorization", "Bearer "+tc.who)
			if tc.as != "" {
				r.Header.Set("Impersonate-User", tc.as)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if body := w.Body.String(); w.Code != tc.status || !strings.Contains(body, tc.says) || tc.not != "" && strings.Contains(body, tc.not) {
				t.Errorf("status %d, want %d with %q and without %q: %s", w.Code, tc.status, tc.says, tc.not, body)
			}
		})
	}
}

func TestMetricsAreForWhoMayGetThem(t *testing.T) {
	handler, c := served(t)
	ask := func(who, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+who)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	ask("ada", ledger.APIRoot+"usage?namespace=b") // refused, and counted
	w := ask("prometheus", "/metrics")
	for _, want := range []string{
		`gpu_ledger_followed_until_timestamp_seconds{kind="pods"} 1.793534`, "gpu_ledger_file_bytes ", `gpu_ledger_questions_total{status="403"} 1`,
		`gpu_ledger_questions_total{status="500"} 0`,
	} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d, want %s in\n%s", w.Code, want, w.Body)
		}
	}
	for who, status := range map[string]int{"ada": http.StatusForbidden, "eve": http.StatusUnauthorized} {
		if got := ask(who, "/metrics"); got.Code != status {
			t.Errorf("%s: %d %s, want %d", who, got.Code, got.Body, status)
		}
	}
	c.broken = true
	if got := ask("prometheus", "/metrics"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("without the cluster: %d", got.Code)
	}
}

func TestUsageSaysWhatWasAsked(t *testing.T) {
	handler, _ := served(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+"usage?namespace=a&by=user&since=2026-11-01T12:30:00Z&until=2030-01-01T00:00:00Z", nil)
	r.Header.Set("Authorization", "Bearer ada")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	var got ledger.Usage
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	want := ledger.Usage{From: noon.Add(30 * time.Minute), To: noon.Add(2 * time.Hour),
		Items: []ledger.Sum{{Keys: map[ledger.Key]string{ledger.ByUser: "u"}, GPUHours: 0.5, Pods: 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestANameThatIsNoneOfAJob reaches no key of the file that begins with it, such as that of one output of a job.
func TestANameThatIsNoneOfAJob(t *testing.T) {
	handler, _ := served(t)
	kept := string(binary.BigEndian.AppendUint64(nil, uint64(noon.Unix())))
	for _, name := range []string{"j\x00" + kept + "u", "j\x00\x00", "j j", strings.Repeat("j", 64)} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+"output/a/"+url.PathEscape(name), nil)
		r.Header.Set("Authorization", "Bearer reader")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is no name of a job") {
			t.Errorf("of %q: status %d: %s", name, w.Code, w.Body)
		}
	}
}

// TestOneUserHasOnePlace while a question of theirs is being answered.
func TestOneUserHasOnePlace(t *testing.T) {
	h := &handler{busyUsers: map[string]bool{}}
	ada, bob := &user.DefaultInfo{Name: "ada"}, &user.DefaultInfo{Name: "bob"}
	if !h.acquireUser(ada) || h.acquireUser(ada) || !h.acquireUser(bob) {
		t.Error("ada has two places, or bob none")
	}
	if h.releaseUser(ada); !h.acquireUser(ada) {
		t.Error("ada's place is not given back")
	}
}

// TestNamesAreGivenAgain: namespace c was deleted and made again for ada, who learns nothing of what was there before. d is
// not there now.
func TestNamesAreGivenAgain(t *testing.T) {
	handler, _ := served(t)
	tests := map[string]struct {
		who, path string
		status    int
		says, not string
	}{
		"what was held":                     {who: "ada", path: "usage?namespace=c&by=user", status: 200, says: `"user":"ada"`, not: "former"},
		"what was held, for all":            {who: "root", path: "usage?namespace=c&by=user", status: 200, says: "former"},
		"beside another namespace":          {who: "ada", path: "usage?namespace=a&namespace=c&by=user", status: 200, says: `"user":"u"`, not: "former"},
		"finished jobs":                     {who: "ada", path: "jobs?namespace=c", status: 200, says: `"uid":"new"`, not: `"uid":"old"`},
		"finished jobs, for all":            {who: "root", path: "jobs?namespace=c", status: 200, says: `"uid":"old"`},
		"runs":                              {who: "ada", path: "runs?namespace=c", status: 200, says: `"user":"ada"`, not: "former"},
		"runs, for all":                     {who: "root", path: "runs?namespace=c", status: 200, says: "former"},
		"one job":                           {who: "ada", path: "jobs/c/new", status: 200, says: `"user":"ada"`},
		"one job of before":                 {who: "ada", path: "jobs/c/old", status: 404},
		"one job of before, for all":        {who: "root", path: "jobs/c/old", status: 200, says: "former"},
		"output":                            {who: "clerk", path: "output/c/j", status: 200, says: "new text", not: "old text"},
		"output, for all":                   {who: "auditor", path: "output/c/j", status: 200, says: "old text"},
		"output of a pod":                   {who: "clerk", path: "output/c/j?pod=old", status: 200, says: `"items":[]`},
		"a namespace that is gone":          {who: "ada", path: "jobs?namespace=d", status: 404, says: "no namespace d now"},
		"a namespace that is gone, for all": {who: "root", path: "jobs?namespace=d", status: 200},
		"output where it is gone":           {who: "clerk", path: "output/d/j", status: 404, says: "of all namespaces"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+tc.path, nil)
			r.Header.Set("Authorization", "Bearer "+tc.who)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if body := w.Body.String(); w.Code != tc.status || !strings.Contains(body, tc.says) || tc.not != "" && strings.Contains(body, tc.not) {
				t.Errorf("status %d, want %d with %q and without %q: %s", w.Code, tc.status, tc.says, tc.not, body)
			}
		})
	}
}
