package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
)

func TestHandler(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	recorder := explain.NewRecorder(explain.DefaultLimits)
	recorder.Record(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "train-1", UID: "1", Labels: map[string]string{names.LabelJob: "train"},
	}}, explain.Attempt{Time: noon, Result: explain.Unschedulable, Nodes: 2, Reasons: []explain.Reason{{Text: "full", Nodes: 2}}})
	const record = `{"namespace":"team","name":"train-1","uid":"1","job":"train","attempts":1,"explained":1,"first":"2026-01-01T12:00:00Z",` +
		`"last":{"time":"2026-01-01T12:00:00Z","result":"Unschedulable","nodes":2,"reasons":[{"text":"full","nodes":2}]}}`

	leads := func(context.Context) (string, bool, error) { return "a", true, nil }
	standsBy := func(context.Context) (string, bool, error) { return "b", false, nil }
	cutOff := func(context.Context) (string, bool, error) { return "", false, errors.New("no API server") }
	const notHere = `{"error":"this scheduler stands by and has no records: ask the leader","leader":"b"}`
	tests := map[string]struct {
		method, path string
		leader       Leader
		status       int
		want         string
	}{
		"a pod":                      {path: "/explain/v1/pods/team/train-1", leader: leads, status: 200, want: record},
		"a pod without an election":  {path: "/explain/v1/pods/team/train-1", status: 200, want: record},
		"the pods of a job":          {path: "/explain/v1/pods/team/?job=train", leader: leads, status: 200, want: `{"items":[` + record + `]}`},
		"the pods of a namespace":    {path: "/explain/v1/pods/team/", leader: leads, status: 200, want: `{"items":[` + record + `]}`},
		"a job without records":      {path: "/explain/v1/pods/team/?job=x", leader: leads, status: 200, want: `{"items":[]}`},
		"a pod that was never tried": {path: "/explain/v1/pods/team/x", leader: leads, status: 404, want: `{"error":"no attempt to place pod team/x is on record"}`},
		"a pod, asked of a standby":  {path: "/explain/v1/pods/team/x", leader: standsBy, status: 503, want: notHere},
		"a job, asked of a standby":  {path: "/explain/v1/pods/team/?job=x", leader: standsBy, status: 503, want: notHere},
		"nobody knows who leads": {path: "/explain/v1/pods/team/x", leader: cutOff, status: 503,
			want: `{"error":"this scheduler stands by and has no records: ask the leader"}`},
		"the namespace of the grant holds, however the path is written": {path: "/explain/v1/pods/other%2F..%2Fteam/train-1", leader: leads, status: 404,
			want: `{"error":"no attempt to place pod other/../team/train-1 is on record"}`},
		"only reading": {method: http.MethodDelete, path: "/explain/v1/pods/team/train-1", leader: leads, status: 405},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response := httptest.NewRecorder()
			NewHandler(recorder, tc.leader).ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil))
			if response.Code != tc.status {
				t.Errorf("status %d, want %d: %s", response.Code, tc.status, response.Body)
			}
			if tc.want == "" {
				return
			}
			if diff := cmp.Diff(compact(t, tc.want), compact(t, response.Body.String())); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnswersThatNobodyReads: of the largest answers, of which nothing is read, few are kept in memory, of however many users of a namespace,
// and others get theirs.
func TestAnswersThatNobodyReads(t *testing.T) {
	recorder := explain.NewRecorder(explain.DefaultLimits)
	for i := range 3_000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))}}
		attempt := explain.Attempt{Time: time.Unix(int64(i), 0), Result: explain.Unschedulable}
		for j := range 8 {
			attempt.Reasons = append(attempt.Reasons, explain.Reason{Text: fmt.Sprint(j, strings.Repeat("x", 500)), Nodes: 1})
		}
		recorder.Record(pod, attempt)
	}
	next := NewHandler(recorder, nil)
	server := httptest.NewUnstartedServer(nil)
	server.Listener, server.Config.Handler = BoundListener(server.Listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: r.Header.Get("Who")})))
	}))
	server.Start()
	t.Cleanup(server.Close)
	const unread = maxConnections + 100
	for i := range unread {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		_, _ = fmt.Fprintf(connection, "GET /explain/v1/pods/team/ HTTP/1.1\r\nHost: x\r\nWho: system:serviceaccount:team:%d\r\n\r\n", i) // it may be one too many
	}
	get := func(path string) (status int, size int64) {
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		ask.Header.Set("Who", "a")
		response, err := server.Client().Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if size, err = io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		return response.StatusCode, size
	}
	if status, _ := get("/explain/v1/pods/team/p1"); status != http.StatusOK {
		t.Errorf("a small answer to another user: %d", status)
	}
	status, one := get("/explain/v1/pods/team/")
	if status != http.StatusOK || one < 8<<20 {
		t.Errorf("a large answer to another user: %d, %d bytes", status, one)
	}
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	if most := uint64(allAnswers + 8*one); now.HeapAlloc > most {
		t.Errorf("%d MiB are held for %d unread answers of %d MiB", now.HeapAlloc>>20, unread, one>>20)
	}
}

func compact(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}
