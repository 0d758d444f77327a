package doctor

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/emulation"
)

func TestWhatTheSchedulerBehavesAs(t *testing.T) {
	own := emulation.OwnVersion()
	server := func(v *version.Version) string { return "v" + v.String() + ".3" }
	tests := map[string]struct {
		server  string
		behaves *version.Version
		args    []string
		status  Status
		text    string
	}{
		"the version that it is built from": {server: server(own), status: OK, text: "the API server is " + server(own)},
		"an older one":                      {server: "v1.34.2-eks-1", status: OK, text: "the API server is v1.34.2-eks-1, and the scheduler behaves as Kubernetes 1.34"},
		"one that is newer":                 {server: "v1.99.3", status: Warning, text: "the API server is v1.99.3, and " + own.String() + " is the newest that was tested"},
		"one that emulates":                 {server: "v1.36.3", behaves: version.MajorMinor(1, 34), status: OK, text: "the API server is v1.36.3, and the scheduler behaves as Kubernetes 1.34"},
		"one that emulates what is too old": {server: "v1.36.3", behaves: version.MajorMinor(1, 33), status: Failed, text: "the API server is v1.36.3, and the scheduler needs 1.34 or newer"},
		"a flag": {server: "v1.36.3", args: []string{"--v=2", "--emulated-version=kube=1.34"}, status: OK,
			text: "the API server is v1.36.3, and the scheduler behaves as Kubernetes 1.34"},
		"a flag that is too new": {server: "v1.34.2", args: []string{"--emulated-version", "1.35"}, status: Warning,
			text: "the API server is v1.34.2, and --emulated-version has the scheduler behave as 1.35"},
		"a flag that says nothing": {server: server(own), args: []string{"--emulated-version"}, status: OK, text: "the API server is " + server(own)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := whole()
			f.Server, f.Behaves = tc.server, tc.behaves
			f.findWorkload(names.SchedulerName).Args = tc.args
			if got := f.checkRelease(); got.Status != tc.status || got.Text.String() != tc.text || (got.Status == OK) != (got.Advice.String() == "") {
				t.Errorf("got %v, want %v: %s", got, tc.status, tc.text)
			}
			f.Workloads = nil
			if got := f.checkRelease(); tc.args == nil && !strings.HasPrefix(got.Text.String(), tc.text) {
				t.Errorf("before it is installed: got %v, want %s", got, tc.text)
			}
		})
	}
}
