package monitoring

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/test/bounds"
)

const (
	// settled is for how long nothing may fire in a quiet cluster, and within how long it must be so.
	settled, settling = 15 * time.Second, bounds.Patience
	// within is how long an alert may take; the ledger is behind after a while only.
	within = 5 * time.Minute
	page   = "../../docs/monitoring.md"
)

var update = flag.Bool("update", false, "write the table of docs/monitoring.md")

// unfired are alerts that no situation here makes fire, and why.
var unfired = map[string]string{
	"GPUServerErrors":        "the server's faults cannot be made on purpose: what it depends on is asked for Prometheus' own rights, too",
	"GPUExplanationsSkipped": "it takes more attempts a second than a machine of two cores makes",
}

// TestAlerts has all be well, looks at the dashboards, and then makes each alert fire in turn.
func TestAlerts(t *testing.T) {
	bounds.SkipInShort(t)
	e := &env{world: &shared, T: t}
	for pool, gpus := range map[string]int64{"full": 4, "frag": 6, "idle": 6, "sick": 6, "gang": 8} {
		e.podOn(pool+"-01", pool+"-0", gpus) // so much that no pool is idle
	}
	e.quiet()
	e.recorded()
	t.Run("dashboards", dashboardsShowSomething)
	took := map[string]time.Duration{}
	for _, s := range situations {
		t.Run(s.alert, func(t *testing.T) {
			e := &env{world: &shared, T: t}
			e.eventually(s.alert+" to be silent", func() bool { return !e.isFiring(s.alert) })
			began := time.Now()
			s.begin(e)
			e.fires(s.alert)
			took[s.alert] = time.Since(began)
			if s.end != nil {
				s.end(e)
			}
		})
	}
	if !t.Failed() && *update {
		writeTable(t, took)
	}
}

// quiet waits until nothing has fired for a while: programs that start are slow at first.
func (e *env) quiet() {
	e.Helper()
	since := time.Now()
	var last map[string]struct{}
	for deadline := time.Now().Add(settling); time.Since(since) < settled; time.Sleep(time.Second) {
		firing, err := e.prometheus.firing(e.Context())
		if err != nil || len(firing) > 0 {
			since, last = time.Now(), map[string]struct{}{}
			for name := range firing {
				last[name] = struct{}{}
			}
		}
		if time.Now().After(deadline) {
			e.Fatalf("of a cluster in which all is well, there fire %v (%v)\n%s", slices.Sorted(maps.Keys(last)), err, e.prometheus.troubles(e.Context()))
		}
	}
	if up, ok := e.prometheus.value(e.Context(), `count(up == 1)`); !ok || up != 5 {
		e.Fatalf("Prometheus reads %v programs, want 5, so that nothing fires proves nothing", up)
	}
	for _, job := range []string{"gpu-scheduler", "gpu-controller", "gpu-ledger", "gpuctl-server"} {
		samples, _ := e.prometheus.value(e.Context(), fmt.Sprintf("max(scrape_samples_post_metric_relabeling{job=%q})", job))
		all, _ := e.prometheus.value(e.Context(), fmt.Sprintf("max(scrape_samples_scraped{job=%q})", job))
		took, _ := e.prometheus.value(e.Context(), fmt.Sprintf("max(scrape_duration_seconds{job=%q})", job))
		e.Logf("%s: %.0f series of %.0f, read in %.3f s", job, samples, all, took)
	}
}

// recorded looks at what is recorded for others.
func (e *env) recorded() {
	e.Helper()
	for _, expr := range []string{"gpu_utilization == 80", `gpu_pool_allocation{pool="full"} == 0.5`, "gpu_scheduler_latency or vector(0) >= 0", "up{job=\"gpu-scheduler\"} == 1"} {
		if _, ok := e.prometheus.value(e.Context(), expr); !ok {
			e.Errorf("%s is of nothing", expr)
		}
	}
}

// fires waits for an alert.
func (e *env) fires(alert string) {
	e.Helper()
	e.eventually(alert+" to fire", func() bool { return e.isFiring(alert) })
}

func (e *env) isFiring(alert string) bool {
	e.Helper()
	firing, err := e.prometheus.firing(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	_, fires := firing[alert]
	return fires
}

func (e *env) eventually(what string, is func() bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), within)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			e.Fatalf("waited %s for %s", within, what)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// TestEveryAlertHasASituation holds the list of situations to the rules.
func TestEveryAlertHasASituation(t *testing.T) {
	rules, err := manifests.FS.ReadFile("monitoring/plain/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			made := slices.ContainsFunc(situations, func(s situation) bool { return s.alert == rule.Alert })
			if rule.Alert != "" && made == (unfired[rule.Alert] != "") {
				t.Errorf("%s: made to fire %v, and said not to be %q", rule.Alert, made, unfired[rule.Alert])
			}
		}
	}
}

// writeTable writes what fired after how long.
func writeTable(t *testing.T, took map[string]time.Duration) {
	t.Helper()
	const begin, end = "<!-- fired: written by go test ./test/monitoring -update -->\n", "<!-- end of fired -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	var table strings.Builder
	table.WriteString("| alert | situation | fired after |\n|---|---|---|\n")
	for _, s := range situations {
		fmt.Fprintf(&table, "| %s | %s | %.0f s |\n", s.alert, s.what, took[s.alert].Seconds())
	}
	for _, alert := range slices.SortedFunc(maps.Keys(unfired), cmp.Compare) {
		fmt.Fprintf(&table, "| %s | none: %s | – |\n", alert, unfired[alert])
	}
	if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
