// Package series counts what Prometheus keeps of the scheduler, the controller and the server in a cluster of 1,000 nodes, 30 pools
// and 10,000 jobs: all labels that our programs can have there are filled in one process, without a cluster.
//
//	go test -count=1 -v -run TestSeries ./test/bench/series
package series

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/util/yaml"

	"g8s.host/gpu-scheduler/manifests"
)

// most is the bound for all three together, as Prometheus keeps them.
const most = 5000

// weight is what one scrape is.
type weight struct{ series, bytes int }

func (w weight) String() string {
	return fmt.Sprintf("%d series, %d KiB", w.series, (w.bytes+1023)>>10)
}

// weigh counts the samples of a text without those that are dropped.
func weigh(text string, dropped *regexp.Regexp) (w weight) {
	for line := range strings.Lines(text) {
		if name := nameOf(line); !strings.HasPrefix(line, "#") && !dropped.MatchString(name) {
			w.series++
			w.bytes += len(line)
		}
	}
	return w
}

// nameOf is the metric of a sample.
func nameOf(line string) string {
	name, _, _ := strings.Cut(line, " ")
	name, _, _ = strings.Cut(name, "{")
	return name
}

// dropping is what the monitor of a program has Prometheus drop.
func dropping(t *testing.T, program string) *regexp.Regexp {
	t.Helper()
	text, err := manifests.FS.ReadFile("monitoring/monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var monitor struct {
		Metadata struct{ Name string }
		Spec     struct {
			Endpoints []struct {
				MetricRelabelings []struct{ Action, Regex string }
			}
		}
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		if err := yaml.Unmarshal(document, &monitor); err != nil {
			t.Fatal(err)
		}
		if monitor.Metadata.Name != program {
			continue
		}
		var dropped []string
		for _, endpoint := range monitor.Spec.Endpoints {
			for _, rule := range endpoint.MetricRelabelings {
				if rule.Action == "drop" {
					dropped = append(dropped, rule.Regex)
				}
			}
		}
		return regexp.MustCompile("^(?:" + strings.Join(dropped, "|") + ")$")
	}
	t.Fatalf("there is no monitor of %s", program)
	return nil
}

// written is what a registry shows, as text.
func written(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// heaviest are the ten metrics of most series.
func heaviest(text string, dropped *regexp.Regexp) string {
	counts := map[string]int{}
	for line := range strings.Lines(text) {
		if name := nameOf(line); !strings.HasPrefix(line, "#") && !dropped.MatchString(name) {
			counts[name]++
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(len(names), 10)] {
		out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(out, ", ")
}

// TestSeries holds the three programs together to the bound, and says how much each is: docs/monitoring.md has the figures.
func TestSeries(t *testing.T) {
	nothing, total := regexp.MustCompile("^$"), weight{}
	for program, text := range map[string]string{
		"gpu-scheduler": scheduler(t), "gpu-controller": controller(t), "gpuctl-server": server(t),
	} {
		kept := weigh(text, dropping(t, program))
		t.Logf("%s: %s are scraped, %s kept", program, weigh(text, nothing), kept)
		t.Logf("most of them: %s", heaviest(text, dropping(t, program)))
		total.series += kept.series
		total.bytes += kept.bytes
		if kept.series < 100 {
			t.Errorf("%s has %d series, so the count proves little", program, kept.series)
		}
	}
	t.Logf("all: %s kept", total)
	if total.series > most {
		t.Errorf("%d series are kept, want %d or fewer", total.series, most)
	}
}
