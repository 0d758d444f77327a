package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// TestWhatIsRefusedBeforeServing: a server that is not safe does not start.
func TestWhatIsRefusedBeforeServing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
		"clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"without a certificate":                 {args: nil, want: "--tls-cert-file"},
		"with a certificate alone":              {args: []string{"--tls-cert-file=a"}, want: "--tls-key-file"},
		"insecure on all addresses":             {args: []string{"--insecure", "--listen=:0"}, want: "loopback"},
		"insecure on an address of the network": {args: []string{"--insecure", "--listen=0.0.0.0:0"}, want: "loopback"},
		"insecure, and yet with a certificate":  {args: []string{"--insecure", "--tls-cert-file=a", "--tls-key-file=b"}, want: "leave it out"},
		"a log of no format":                    {args: []string{"--insecure", "--log-format=xml"}, want: "json or text"},
		"traces by a file that is not there":    {args: []string{"--insecure", "--tracing-config-file=/none"}, want: "--tracing-config-file /none"},
		"a certificate that is not there":       {args: []string{"--tls-cert-file=/none", "--tls-key-file=/none"}, want: "reading the certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := New()
			cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig}, tc.args...))
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestAnInsecureServerOnLoopbackEndsInOrder serves until it is told to stop.
func TestAnInsecureServerOnLoopbackEndsInOrder(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
		"clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := New()
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--insecure", "--listen=127.0.0.1:0"})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Errorf("ended with %v", err)
	}
	if !ctrllog.Log.Enabled() {
		t.Error("libraries do not log as the program does, so that what watches the certificate complains with a stack")
	}
}
