package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/server"
)

// book is a ledger that notes who asks what, and answers as it is told.
type book struct {
	mu      sync.Mutex
	asked   []string
	status  int
	answers map[string]string
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, r.Header.Get("Impersonate-User")+" "+r.URL.RequestURI())
	if b.status != 0 {
		w.WriteHeader(b.status)
		_, _ = io.WriteString(w, `{"error":"you may not list the pods of namespace team"}`)
		return
	}
	_, _ = io.WriteString(w, b.answers[strings.TrimPrefix(r.URL.Path, ledger.APIRoot)])
}

// TestTheLedgerIsAskedAsTheCaller, who gets its answer, and its refusal.
func TestTheLedgerIsAskedAsTheCaller(t *testing.T) {
	b := &book{answers: map[string]string{
		"usage": `{"from":"2026-11-01T00:00:00Z","to":"2026-11-02T00:00:00Z","items":[{"keys":{"user":"ada"},"gpuHours":1.5,"pods":2,"running":1,
			"efficiency":{"utilizationPercent":62.5,"measuredPercent":90}}]}`,
		"jobs": `{"items":[{"uid":"u","namespace":"team","name":"sft","kind":"training","status":"Succeeded","gpus":8,"created":"2026-11-01T00:00:00Z","finished":"2026-11-01T01:00:00Z",
			"efficiency":{"utilizationPercent":null,"measuredPercent":0}}],"more":true}`,
	}}
	remote := httptest.NewTLSServer(b)
	t.Cleanup(remote.Close)
	a := start(t, server.Options{Ledger: ledgerclient.Options{Address: remote.URL, Insecure: true}})
	usage := a.want(http.StatusOK, request{path: "/api/v1/usage?by=user&namespace=team&namespace=other&since=2026-11-01T00:00:00Z", user: member})
	a.same("the sums", []any{map[string]any{"keys": map[string]any{"user": "ada"}, "gpuHours": 1.5, "uncertainGpuHours": 0.0, "pods": 2.0, "running": 1.0,
		"efficiency": map[string]any{"utilizationPercent": 62.5, "measuredPercent": 90.0}}}, usage["items"])
	jobs := a.want(http.StatusOK, request{path: "/api/v1/finished-jobs?namespace=team&name=sft", user: member})
	items, _ := jobs["items"].([]any)
	job, _ := items[0].(map[string]any)
	a.same("the job", map[string]any{"jobId": "sft", "status": "Succeeded", "gpus": 8.0, "finished": "2026-11-01T01:00:00Z",
		"efficiency": map[string]any{"utilizationPercent": nil, "measuredPercent": 0.0}}, only(job, "jobId", "status", "gpus", "finished", "efficiency"))
	a.same("whether there are more", true, jobs["more"])
	b.mu.Lock()
	for i, want := range []string{"/ledger/v1/usage?by=user&namespace=team&namespace=other&since=2026-11-01T00%3A00%3A00Z", "/ledger/v1/jobs?limit=500&name=sft&namespace=team"} {
		if who, what, _ := strings.Cut(b.asked[i], " "); who == "" || what != want {
			t.Errorf("asked as %q for %s, want %s", who, what, want)
		}
	}
	b.status = http.StatusForbidden
	b.mu.Unlock()
	refused := a.want(http.StatusForbidden, request{path: "/api/v1/usage?namespace=team", user: nobody})
	a.same("why", "you may not list the pods of namespace team", refused["error"])
	a.want(http.StatusBadRequest, request{path: "/api/v1/usage?by=team", user: member})
	remote.Close()
	gone := a.want(http.StatusServiceUnavailable, request{path: "/api/v1/usage?namespace=team", user: member})
	if text, _ := gone["error"].(string); strings.Contains(text, "127.0.0.1") {
		t.Errorf("%q shows where the ledger is", text)
	}
}
