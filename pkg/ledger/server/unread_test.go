package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// fullOfText serves a ledger with jobs of one namespace whose user is all that may be written there: JSON makes two bytes of each, and six
// in what their pods held.
func fullOfText(t *testing.T, count int) http.Handler {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	text := strings.Repeat("\\", 500)
	err = s.Update(func(tx *store.Tx) error {
		for i := range count {
			name := fmt.Sprintf("j%06d", i)
			job := ledger.Job{
				UID: "u" + name, Namespace: "a", Name: name, User: text, Status: "Cancelled", Created: noon, Finished: noon.Add(time.Hour),
			}
			held := ledger.Holding{
				UID: "p" + name, Namespace: "a", Pod: name, Job: "many", JobUID: "uj000000", User: fmt.Sprint(strings.Repeat("\x01", 500), i), Milli: 1000, From: noon, To: noon.Add(time.Hour),
			}
			if i == 0 {
				job.Name = "many"
			}
			if i%2 == 1 {
				held.Job, held.JobUID = name, job.UID
			}
			if err := tx.PutJob(&job); err != nil {
				return err
			}
			if err := tx.Put(&held); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	return Handler(Options{
		Store: s, Gate: &Gate{authn: c, authz: c, namespaceBegin: begin}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon.Add(2 * time.Hour) },
	})
}

// TestAnswersThatNobodyTakesAreBounded: one user who may list the pods of one namespace asks again and again and reads no answer.
// Twelve such answers, of twenty thousand jobs each, were 800 MiB.
func TestAnswersThatNobodyTakesAreBounded(t *testing.T) {
	web := httptest.NewServer(fullOfText(t, 12_000))
	defer web.Close()
	defer web.CloseClientConnections()
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 12 {
		connection, err := net.Dial("tcp", strings.TrimPrefix(web.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		_, _ = fmt.Fprintf(connection, "GET %sjobs?namespace=a&limit=20000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\r\n", ledger.APIRoot)
		first := make([]byte, 15)
		_ = connection.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadFull(connection, first); err != nil || !strings.Contains(string(first), "200") {
			t.Fatalf("answer %d: %q, error %v", i, first, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	if grown := (int64(m.HeapAlloc) - int64(before.HeapAlloc)) >> 20; grown > 160 {
		t.Errorf("twelve unread answers of one user hold %d MiB", grown)
	}
}

// TestAnAnswerIsBoundedInBytes, whatever it is of, and says that there is more, or sums it.
func TestAnAnswerIsBoundedInBytes(t *testing.T) {
	handler := fullOfText(t, 12_000)
	for path, all := range map[string]int{
		"jobs?namespace=a&limit=20000": 12_000, "runs?namespace=a&limit=20000": 6001, "jobs/a/uj000000": 5000, "usage?namespace=a&by=user": 12_000,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ledger.APIRoot+path, nil)
		r.Header.Set("Authorization", "Bearer ada")
		handler.ServeHTTP(w, r)
		var out struct {
			Items, Holdings []json.RawMessage
			More            bool
			Rest            *ledger.Sum
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: status %d, error %v", path, w.Code, err)
		}
		count := len(out.Items) + len(out.Holdings)
		if count == 0 || w.Body.Len() > maxAnswer+maxAnswer/4 {
			t.Errorf("%s: %d items in %d bytes", path, count, w.Body.Len())
		}
		if count >= all || !out.More && out.Rest == nil {
			t.Errorf("%s: %d of %d items, more: %t, the rest: %v", path, count, all, out.More, out.Rest)
		}
	}
}
