package command

import (
	"strings"
	"testing"
)

// TestWhatIsRefusedBeforeAnythingIsDone: a setting that could not be meant stops the program.
func TestWhatIsRefusedBeforeAnythingIsDone(t *testing.T) {
	tests := map[string]struct{ flag, want string }{
		"a silence that a kubelet may keep": {"--out-of-service-after=30s", "want 0 or 40s or more"},
		"a negative silence":                {"--out-of-service-after=-1s", "want 0 or 40s or more"},
		"more than all nodes":               {"--out-of-service-budget=101", "0 to 100"},
		"a back-off that shrinks":           {"--suspect-max-back-off=1s", "no less"},
		"a failure that is forgotten early": {"--suspect-forget=1s", "no less"},
		"a lease that nobody can renew":     {"--leader-elect-lease-duration=1s", "want 3s or more"},
		"less than no time with a dead GPU": {"--broken-gpu-after=-1s", "want 0 or more"},
		"advice all the time":               {"--advice-every=0s", "1s or more"},
		"a load that no GPU has":            {"--idle-below=0", "more than 0"},
		"a warning after a week":            {"--idle-warn-after=168h", "want 5h0m0s or less"},
		"a private address that is none":    {"--notify-private-addresses=10.1.2.3", "no range of addresses"},
		"an argument":                       {"now", "unknown command"},
		"a negative verbosity":              {"--v=-1", "want 0 or more"},
		"a kubeconfig that is not there":    {"--kubeconfig=/none", "finding the cluster"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := New()
			cmd.SetArgs([]string{tc.flag})
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}
