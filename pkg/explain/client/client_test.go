package client

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/explain/server"
)

func TestJob(t *testing.T) {
	records := []explain.Record{{Namespace: "team", Name: "sft-x", UID: "1", Attempts: 3}}
	tests := map[string]struct {
		status int
		body   any
		want   []explain.Record
		says   string
	}{
		"the leader answers":      {status: http.StatusOK, body: server.List{Items: records}, want: records},
		"a standby names it":      {status: http.StatusServiceUnavailable, body: server.Failure{Error: "ask the leader", Leader: "b_1"}, says: "which is b_1"},
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
			config := &rest.Config{Host: "https://apiserver", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("another")}}
			client, err := New(config, Options{Address: server.URL, CA: authority(t, server)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.Job(t.Context(), "team", "sft")
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

// authority writes the certificate of a server to a file.
func authority(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCredentialsGoNowhereUnproven(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	config := &rest.Config{BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client, err := New(config, Options{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Job(t.Context(), "team", "sft"); err == nil || asked {
		t.Errorf("a scheduler with an unknown certificate got the token: %v", err)
	}
	// The certificate is one of 127.0.0.1, and that of a name is asked for.
	elsewhere := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	if client, err = New(config, Options{Address: elsewhere, CA: authority(t, server)}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Job(t.Context(), "team", "sft"); err == nil || asked {
		t.Errorf("a scheduler with the certificate of another name got the token: %v", err)
	}
}
