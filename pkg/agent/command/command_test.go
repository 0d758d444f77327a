package command

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsRefusedAtStart: an agent that would do something else than it was told does not start.
func TestWhatIsRefusedAtStart(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	node, cards := "--node-name=n", filepath.Join(t.TempDir(), "cards.yaml")
	if err := os.WriteFile(cards, []byte("count: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no node":                           {nil, "--node-name"},
		"a log of no format":                {[]string{node, "--log-format=xml"}, "json or text"},
		"a policy that there is not":        {[]string{node, "--unassigned=maybe"}, "refuse or free"},
		"a mode that there is not":          {[]string{node, "--mode=watch"}, "serve or report"},
		"an overrun that there is not":      {[]string{node, "--overruns=maybe"}, "warn or end"},
		"no slots":                          {[]string{node, "--slots-per-card=0"}, "want 1 to 256"},
		"more slots than kubelet bears":     {[]string{node, "--slots-per-card=100000"}, "want 1 to 256"},
		"a quiet time before it began":      {[]string{node, "--healthy-after=-1s"}, "--healthy-after"},
		"an address that is none":           {[]string{node, "--interruption-url=metadata"}, "--interruption-url"},
		"an argument":                       {[]string{node, "stray"}, "unknown command"},
		"a library that there is not":       {[]string{node, "--nvml=dcgm"}, "auto or mock"},
		"a mock without cards":              {[]string{node, "--nvml=mock"}, "--mock-config"},
		"cards of a file beside real ones":  {[]string{node, "--mock-config=cards.yaml"}, "--nvml=mock"},
		"cards of a file that is not there": {[]string{node, "--nvml=mock", "--mock-config=/none"}, "reading the fake cards"},
		"a kubeconfig that is not there":    {[]string{node, "--nvml=mock", "--mock-config=" + cards, "--kubeconfig=/none"}, "finding the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := New()
			cmd.SetArgs(tc.args)
			cmd.SetErr(io.Discard)
			cmd.SetOut(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestARootWithoutADriver: the agent of a node without one says what is missing, with cgo or without.
func TestARootWithoutADriver(t *testing.T) {
	o := &options{nvml: "auto", driverRoot: filepath.Join(t.TempDir(), "host")}
	if _, err := o.openLibrary(); err == nil || !strings.Contains(err.Error(), "driver") && !strings.Contains(err.Error(), "cgo") {
		t.Errorf("error %v, want a hint", err)
	}
}
