package cli

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestWhereTheLedgerIs: who says it first is believed, and the cluster is asked last.
func TestWhereTheLedgerIs(t *testing.T) {
	const byCluster, byUser = "https://ledger.of.cluster", "https://ledger.of.user"
	data := func(url string) map[string]string { return map[string]string{"url": url, "ca.crt": "a certificate"} }
	tests := map[string]struct {
		flag, env string
		said      map[string]string
		in        string // the namespace of the ConfigMap; "" is kube-system
		status    int
		want      string // "" for none
		ca        string
		fails     string
		asks      bool
	}{
		"a flag":                                {flag: byUser, env: "https://other", said: data(byCluster), want: byUser},
		"the environment":                       {env: byUser, said: data(byCluster), want: byUser},
		"the cluster":                           {said: data(byCluster), want: byCluster, ca: "a certificate", asks: true},
		"a writer of kube-public":               {said: data("https://evil"), in: "kube-public", asks: true},
		"a cluster that does not say it":        {status: http.StatusNotFound, asks: true},
		"a cluster that does not tell you":      {status: http.StatusForbidden, asks: true},
		"a cluster that fails":                  {status: http.StatusTeapot, asks: true, fails: "asking the cluster where its ledger is"},
		"a cluster that says nothing":           {said: map[string]string{}, asks: true},
		"none, by a flag":                       {flag: noLedger, said: data(byCluster)},
		"none, by the environment":              {env: noLedger, said: data(byCluster)},
		"none, by the cluster":                  {said: data(noLedger), asks: true},
		"no address that credentials may go to": {said: data("http://ledger.of.cluster"), asks: true, fails: "ConfigMap kube-system/g8s-ledger"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				if tc.status != 0 || r.URL.Path != "/api/v1/namespaces/"+cmp.Or(tc.in, "kube-system")+"/configmaps/g8s-ledger" {
					w.WriteHeader(max(tc.status, http.StatusNotFound))
					return
				}
				_ = json.NewEncoder(w).Encode(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: tc.said})
			}))
			t.Cleanup(server.Close)
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv(envLedger, tc.env)
			t.Setenv(envLedgerCA, "")
			streams, _, _ := TestIOStreams("")
			f := NewFactory(streams)
			f.config = func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }
			o := &ledgerOptions{}
			o.Address = tc.flag
			known, err := o.findAddress(t.Context(), f)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil || known != (tc.want != "") || known && o.Address != tc.want || string(o.CAData) != tc.ca && known || asked > 0 != tc.asks {
				t.Errorf("known %t at %q with %q, %d questions, %v; want %q", known, o.Address, o.CAData, asked, err, tc.want)
			}
		})
	}
}
