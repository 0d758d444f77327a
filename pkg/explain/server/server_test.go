package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			Handler(recorder, tc.leader).ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil))
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

func compact(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}
