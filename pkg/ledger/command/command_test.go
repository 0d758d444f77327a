package command

import (
	"strings"
	"testing"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// TestWhatIsRefusedBeforeAnythingIsDone: a setting that could not be meant stops the program.
func TestWhatIsRefusedBeforeAnythingIsDone(t *testing.T) {
	secure := []string{"--tls-cert-file=a", "--tls-key-file=b", "--data-dir=/none"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"nowhere to keep it":             {args: secure[:2], want: "--data-dir"},
		"no certificate":                 {args: secure[2:], want: "--tls-cert-file"},
		"kept for an hour":               {args: append([]string{"--retention=1h"}, secure...), want: "24h0m0s or more"},
		"a budget of less than nothing":  {args: append([]string{"--output-budget=-1Gi"}, secure...), want: "want an amount such as 1Gi"},
		"no address of Prometheus":       {args: append([]string{"--prometheus-url=://"}, secure...), want: "--prometheus-url"},
		"an argument":                    {args: []string{"now"}, want: "unknown command"},
		"a kubeconfig that is not there": {args: append([]string{"--kubeconfig=/none"}, secure...), want: "finding the cluster"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := New()
			cmd.SetArgs(tc.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestLibrariesLogAsTheProgramDoes: what watches the certificate would else complain, with the stack of a goroutine.
func TestLibrariesLogAsTheProgramDoes(t *testing.T) {
	cmd := New()
	cmd.SetArgs([]string{"--tls-cert-file=a", "--tls-key-file=b", "--data-dir=/none", "--kubeconfig=/none"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !ctrllog.Log.Enabled() {
		t.Errorf("it ended with %v, and libraries log: %t", err, ctrllog.Log.Enabled())
	}
}
