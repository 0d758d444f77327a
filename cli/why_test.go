package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/explain/serve"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestWhyIsWrittenForPeople(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]diagnosis.Report{
		"why-pending": {
			Job: "sft", Namespace: "team", Status: inventory.StatusPending, Cause: diagnosis.Busy,
			Findings: []diagnosis.Finding{
				{Cause: diagnosis.Busy, Text: "6 of 24 GPUs are free on 3 nodes; a pod asks for 8", Nodes: 3, Examples: []string{"n1", "n2", "n3"},
					Advice: []string{"wait: node n1 is 2 GPUs short; job llama of namespace team holds 2 there", "or ask for at most 6 GPUs per pod, which node n1 has now"}},
				{Cause: diagnosis.Cordoned, Text: "9 nodes cordoned: the administrators keep new pods away", Nodes: 9, Examples: []string{"n4", "n5", "n6", "n7", "n8"},
					Advice: []string{"ask them when the nodes come back, or use another pool"}},
			},
			NearMisses: []diagnosis.NearMiss{{
				NearMiss: explain.NearMiss{Node: "n1", Short: 2, Detail: "6 of 8 free, 2 short"},
				Holders:  []diagnosis.Holder{{Namespace: "team", Job: "llama", GPUs: 2}},
			}},
			Records: []explain.Record{{Name: "sft-x", Attempts: 12, Explained: 11, Last: explain.Attempt{
				Time: now.Add(-3 * time.Second), Result: explain.Unschedulable, Nodes: 64, Reasons: []explain.Reason{
					{Text: "node(s) are in another GPU pool", Nodes: 52}, {Text: "node(s) have too few free GPUs", Plugin: "GPUFilter", Nodes: 3},
				}}}},
			Verdict: "0/64 nodes are available: 3 node(s) have too few free GPUs.",
			Unread:  []string{diagnosis.UnreadLease},
		},
		"why-busy-scheduler": {
			Job: "sft", Namespace: "team", Status: inventory.StatusPending, Cause: diagnosis.Busy,
			Records: []explain.Record{{Name: "sft-x", Attempts: 2, Last: explain.Attempt{
				Time: now.Add(-3 * time.Second), Result: explain.Unschedulable, Nodes: 64,
			}}},
		},
		"why-running": {
			Job: "sft", Namespace: "team", Status: inventory.StatusRunning, Cause: diagnosis.Running,
			Placements: []diagnosis.Placement{{
				Pod: "sft-x", Node: "n1", Pool: "training", Type: "A100-80G", Connection: "NVLink, 100 % of the best that 2 GPUs of this node can have",
				Devices: []gpu.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 3, MemoryMiB: 2048}},
			}},
			Records: []explain.Record{{Name: "sft-x", Attempts: 1, Explained: 1, Last: explain.Attempt{
				Time: now.Add(-time.Hour), Result: explain.Placed, Node: "n1", Feasible: 7, DevicesReason: "the set with the best interconnect",
				Candidates: []explain.Candidate{
					{Node: "n1", Score: 82, Parts: []explain.Part{{Name: "utilization", Value: 75, Weight: 40}, {Name: "topology", Value: 100, Weight: 30}}},
					{Node: "n2", Score: 61, Parts: []explain.Part{{Name: "utilization", Value: 50, Weight: 40}, {Name: "topology", Value: 100, Weight: 30}}},
				}}}},
		},
	}
	for name, report := range tests {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			if err := explainReport(newDescription(IOStreams{Out: out}), report, now); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name, out.String())
		})
	}
}

func TestRecordsOfTheScheduler(t *testing.T) {
	records := []explain.Record{{Namespace: "team", Name: "sft-x", UID: "1", Attempts: 3}}
	tests := map[string]struct {
		status int
		body   any
		want   []explain.Record
		says   string
	}{
		"the leader answers":      {status: http.StatusOK, body: serve.List{Items: records}, want: records},
		"a standby names it":      {status: http.StatusServiceUnavailable, body: serve.Failure{Error: "ask the leader", Leader: "b_1"}, says: "which is b_1"},
		"the user may not ask":    {status: http.StatusForbidden, body: "no", says: "g8s:explain-reader"},
		"the server is something": {status: http.StatusTeapot, body: "no", says: "418"},
		"the answer is something": {status: http.StatusOK, body: "no", says: "reading the scheduler's answer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var path, token string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, token = r.URL.String(), r.Header.Get("Authorization")
				w.WriteHeader(tc.status)
				_ = json.NewEncoder(w).Encode(tc.body)
			}))
			defer server.Close()
			authority := filepath.Join(t.TempDir(), "ca.crt")
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			if err := os.WriteFile(authority, block, 0o600); err != nil {
				t.Fatal(err)
			}
			config := &rest.Config{Host: "https://apiserver", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("another")}}
			options := schedulerOptions{address: server.URL, ca: authority}
			got, err := options.get(t.Context(), config, "/explain/v1/pods/team/?job=sft")
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want it to say %q", err, tc.says)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("records (-want +got), %v:\n%s", err, diff)
			}
			if path != "/explain/v1/pods/team/?job=sft" || token != "Bearer token" {
				t.Errorf("asked for %s with %q", path, token)
			}
		})
	}
}

func TestCredentialsGoNowhereUnproven(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	options := schedulerOptions{address: server.URL}
	if _, err := options.get(t.Context(), &rest.Config{BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "/"); err == nil || asked {
		t.Errorf("a scheduler with an unknown certificate got the token: %v", err)
	}
	for name, options := range map[string]schedulerOptions{
		"no encryption": {address: "http://localhost:10260"}, "no address": {address: "localhost"},
		"a contradiction": {address: "https://localhost", ca: "ca.crt", insecure: true},
	} {
		if err := options.validate(); exitCode(err) != exitUsage {
			t.Errorf("%s: error %v, want a usage error", name, err)
		}
	}
}
