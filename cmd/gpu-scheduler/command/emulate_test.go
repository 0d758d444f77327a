package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// quickAsking is what tests wait for a server that does not answer. No test depends on how long it is.
var quickAsking = versionProber{startTimeout: 500 * time.Millisecond, request: 100 * time.Millisecond, interval: 5 * time.Millisecond, lateInterval: 5 * time.Millisecond}

// steadyAsking is for servers that answer in the end, however slow the machine is.
var steadyAsking = versionProber{startTimeout: time.Minute, request: time.Minute, interval: time.Millisecond, lateInterval: time.Millisecond}

// A gate that has changed its default, and one that older versions do not have.
const changedGate, newGate = "ChangedGate", "NewGate"

// optionsOf are those of a scheduler built from Kubernetes 1.35, with gates of its own.
func optionsOf(t *testing.T, server string, flags ...string) *options.Options {
	t.Helper()
	gates := featuregate.NewVersionedFeatureGate(version.MajorMinor(1, 35))
	err := gates.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		changedGate: {
			{Version: version.MajorMinor(1, 32), Default: false, PreRelease: featuregate.Alpha},
			{Version: version.MajorMinor(1, 35), Default: true, PreRelease: featuregate.Beta},
		},
		newGate: {{Version: version.MajorMinor(1, 35), Default: true, PreRelease: featuregate.Beta}},
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	effective := basecompatibility.NewEffectiveVersionFromString("1.35.4", "1.32", "1.32")
	if err := registry.Register(basecompatibility.DefaultKubeComponent, effective, gates); err != nil {
		t.Fatal(err)
	}
	o := options.NewOptionsWithComponentGlobalsRegistry(registry)
	o.Master = server
	if err := o.Flags.FlagSet("feature gate").Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := registry.Set(); err != nil { // as before the command runs
		t.Fatal(err)
	}
	return o
}

// versionServer is an API server that tells its version, and misbehaves.
type versionServer struct {
	*httptest.Server
	asked atomic.Int32
}

// serveVersion answers each request by the next answer, and all others by the last.
func serveVersion(t *testing.T, answers ...http.HandlerFunc) *versionServer {
	t.Helper()
	s := &versionServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		answers[min(int(s.asked.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
}

func is(gitVersion string) http.HandlerFunc {
	return says(`{"major":"1","minor":"34+","gitVersion":"` + gitVersion + `"}`)
}

func fails(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// hangs answers no request before it is given up.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// breaks ends the connection in the middle of an answer.
func breaks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = fmt.Fprint(w, `{"major":"1"`)
}

func TestTheSchedulerBehavesAsItsServer(t *testing.T) {
	tests := map[string]struct {
		asks    versionProber
		answers []http.HandlerFunc
		flags   []string
		want    string
		asked   int32 // 0 for any number
		fail    string
	}{
		"one that is older":             {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.34.4")}, want: "1.34", asked: 1},
		"the oldest":                    {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.32.0")}, want: "1.32", asked: 1},
		"one that is too old":           {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.31.9")}, fail: "the API server is Kubernetes 1.31, and this scheduler can behave as 1.32 at the oldest"},
		"the same":                      {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.35.0")}, want: "1.35", asked: 1},
		"one that is newer":             {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.37.2")}, want: "1.35", asked: 1},
		"a cloud's":                     {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.34.2-eks-abc")}, want: "1.34", asked: 1},
		"one that says 1.34+":           {asks: steadyAsking, answers: []http.HandlerFunc{is("1.34+")}, want: "1.34", asked: 1},
		"one whose version is no word":  {asks: steadyAsking, answers: []http.HandlerFunc{says(`{"gitVersion":"banana"}`)}, want: "1.35", asked: 1},
		"one that says nothing":         {asks: steadyAsking, answers: []http.HandlerFunc{says(`{}`)}, want: "1.35", asked: 1},
		"one that forbids to ask":       {asks: steadyAsking, answers: []http.HandlerFunc{fails(http.StatusForbidden)}, want: "1.35", asked: 1},
		"one that fails at first":       {asks: steadyAsking, answers: []http.HandlerFunc{fails(500), fails(503), breaks, is("v1.34.4")}, want: "1.34", asked: 4},
		"one behind a proxy's page":     {asks: steadyAsking, answers: []http.HandlerFunc{says("<html>"), is("v1.34.4")}, want: "1.34", asked: 2},
		"one that fails all the time":   {asks: quickAsking, answers: []http.HandlerFunc{fails(500)}, want: "1.35"},
		"one that hangs":                {asks: quickAsking, answers: []http.HandlerFunc{hangs}, want: "1.35"},
		"one that sends without end":    {asks: steadyAsking, answers: []http.HandlerFunc{says(strings.Repeat(" ", 2*largestVersion)), is("v1.34.4")}, want: "1.34", asked: 2},
		"a flag, though it is older":    {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.34.4")}, flags: []string{"--emulated-version=1.33"}, want: "1.33", asked: -1},
		"a flag, though it is too old":  {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.30.4")}, flags: []string{"--emulated-version=kube=1.32"}, want: "1.32", asked: -1},
		"a gate that both have":         {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.34.4")}, flags: []string{"--feature-gates=ChangedGate=true"}, want: "1.34", asked: 1},
		"a gate that it does not have":  {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.34.4")}, flags: []string{"--feature-gates=NewGate=false"}, fail: "give --emulated-version=1.35"},
		"a gate, and one that is newer": {asks: steadyAsking, answers: []http.HandlerFunc{is("v1.36.4")}, flags: []string{"--feature-gates=NewGate=false"}, want: "1.35", asked: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := serveVersion(t, tc.answers...)
			o := optionsOf(t, server.URL, tc.flags...)
			err := tc.asks.emulateServer(t.Context(), func() {}, o)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v, want an error with %q", err, tc.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			kube := o.ComponentGlobalsRegistry
			if got := kube.EffectiveVersionFor("kube").EmulationVersion().String(); got != tc.want {
				t.Errorf("it behaves as %s, want %s", got, tc.want)
			}
			wantGate := tc.want == "1.35" || len(tc.flags) > 0 && tc.flags[0] == "--feature-gates=ChangedGate=true"
			if got := kube.FeatureGateFor("kube").Enabled(changedGate); got != wantGate {
				t.Errorf("the gate that is on since 1.35 is %v", got)
			}
			if got := server.asked.Load(); tc.asked > 0 && got != tc.asked || tc.asked < 0 && got > 0 {
				t.Errorf("the server was asked %d times", got)
			}
			if errs := kube.Validate(); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// TestWhatBecomesOfASchedulerThatBeganWithoutItsServer when the server answers at last: it ends where it is to behave as another version.
func TestWhatBecomesOfASchedulerThatBeganWithoutItsServer(t *testing.T) {
	for body, want := range map[string]bool{
		`{"gitVersion":"v1.34.4"}`: true, `{"gitVersion":"v1.30.0"}`: true,
		`{"gitVersion":"v1.35.1"}`: false, `{"gitVersion":"v1.37.0"}`: false, `{"gitVersion":"banana"}`: false,
	} {
		t.Run(body, func(t *testing.T) {
			server := serveVersion(t, fails(http.StatusServiceUnavailable), breaks, says(body))
			ask, err := newVersionQuery(optionsOf(t, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			ended := false
			steadyAsking.restartAsServer(t.Context(), func() { ended = true }, ask, version.MustParseSemantic("1.35.4"))
			if ended != want || server.asked.Load() != 3 {
				t.Errorf("it ends: %v, want %v; the server was asked %d times", ended, want, server.asked.Load())
			}
		})
	}
}

// TestAServerThatComesLateIsAsked by a scheduler that has begun without it.
func TestAServerThatComesLateIsAsked(t *testing.T) {
	var up atomic.Bool
	server := serveVersion(t, func(w http.ResponseWriter, r *http.Request) {
		if up.Load() {
			is("v1.34.4")(w, r)
			return
		}
		fails(http.StatusServiceUnavailable)(w, r)
	})
	o, ended := optionsOf(t, server.URL), make(chan struct{})
	if err := quickAsking.emulateServer(t.Context(), func() { close(ended) }, o); err != nil {
		t.Fatal(err)
	}
	if got := o.ComponentGlobalsRegistry.EffectiveVersionFor("kube").EmulationVersion().String(); got != "1.35" {
		t.Fatalf("it begins as %s", got)
	}
	up.Store(true)
	<-ended
}

// TestTheServerIsThatOfTheConfiguration, as for kube-scheduler: --kubeconfig counts only without a configuration.
func TestTheServerIsThatOfTheConfiguration(t *testing.T) {
	kubeconfig := func(server string) string {
		return write(t, "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '"+server+"'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n")
	}
	inFile, inFlag := serveVersion(t, is("v1.34.4")), serveVersion(t, is("v1.33.4"))
	config := write(t, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: "+kubeconfig(inFile.URL)+"}\n")
	for name, tc := range map[string]struct{ config, kubeconfig, want string }{
		"of the configuration":            {config, kubeconfig(inFlag.URL), "1.34"},
		"of the flag":                     {"", kubeconfig(inFlag.URL), "1.33"},
		"none, which the set-up finds":    {"", filepath.Join(t.TempDir(), "none"), "1.35"},
		"no file, which the set-up finds": {filepath.Join(t.TempDir(), "none"), "", "1.35"},
		"no YAML, which the set-up finds": {write(t, "a: [b"), "", "1.35"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(t, "")
			o.ConfigFile, o.Deprecated.Kubeconfig = tc.config, tc.kubeconfig
			if err := steadyAsking.emulateServer(t.Context(), func() {}, o); err != nil {
				t.Fatal(err)
			}
			if got := o.ComponentGlobalsRegistry.EffectiveVersionFor("kube").EmulationVersion().String(); got != tc.want {
				t.Errorf("it behaves as %s, want %s", got, tc.want)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAMetricSaysWhatTheSchedulerBehavesAs: it is kube-scheduler's own, which our command has to ask for.
func TestAMetricSaysWhatTheSchedulerBehavesAs(t *testing.T) {
	defer compatversion.ResetCompatVersionInfoMetric()
	o := optionsOf(t, serveVersion(t, is("v1.34.4")).URL)
	if err := steadyAsking.emulateServer(t.Context(), func() {}, o); err != nil {
		t.Fatal(err)
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "version_info" {
			if said := family.String(); !strings.Contains(said, `"1.34"`) || !strings.Contains(said, `"1.35.4"`) {
				t.Errorf("it says %s", said)
			}
			return
		}
	}
	t.Error("there is no metric version_info")
}
