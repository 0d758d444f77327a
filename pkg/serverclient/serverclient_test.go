package serverclient

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		options Options
		says    string
	}{
		"an address":            {Options{Address: "https://ledger.test:8443", CA: "ca.crt"}, ""},
		"none":                  {Options{}, `the ledger's address is "", want one such as https://x`},
		"not encrypted":         {Options{Address: "http://ledger.test"}, "the ledger's address is"},
		"no host":               {Options{Address: "https:///x"}, "the ledger's address is"},
		"what is no address":    {Options{Address: "https://[::1"}, "the ledger's address is"},
		"proof and none wanted": {Options{Address: "https://ledger.test", CA: "ca.crt", Insecure: true}, "contradict"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := tc.options.Validate("ledger", "https://x")
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

// TestCredentialsGoToTheNamedAddressAlone: not to whom an answer names, and not to whom does not prove to be there.
func TestCredentialsGoToTheNamedAddressAlone(t *testing.T) {
	var elsewhere []string
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	var token string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	config := &rest.Config{Host: "https://apiserver", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, tc := range map[string]struct {
		options Options
		name    string
		token   string
	}{
		"proven":                        {Options{Address: server.URL, CAData: authority}, "", "Bearer token"},
		"whoever it is":                 {Options{Address: server.URL, Insecure: true}, "", "Bearer token"},
		"not proven to this machine":    {Options{Address: server.URL}, "", ""},
		"another's name for its own":    {Options{Address: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), CAData: authority}, "", ""},
		"another name of it":            {Options{Address: server.URL, CAData: authority}, "example.com", "Bearer token"},
		"a name that it has not":        {Options{Address: server.URL, CAData: authority}, "ledger.test", ""},
		"a file wins, and is not there": {Options{Address: server.URL, CA: "/none", CAData: authority}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			token = ""
			if client, err := New(config, &tc.options, tc.name); err == nil {
				if response, err := client.Get(tc.options.Address); err == nil {
					_ = response.Body.Close()
				}
			}
			if token != tc.token || len(elsewhere) > 0 {
				t.Errorf("the server got %q, and another %q", token, elsewhere)
			}
		})
	}
}
