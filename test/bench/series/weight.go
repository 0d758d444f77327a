// Package series counts what Prometheus keeps of our programs: of what a scrape of each brings, that which its monitor does not
// drop. Its test has the scheduler, the controller and the server show all labels that they can have in a cluster of 1,000
// nodes, 30 pools and 10,000 jobs, in one process and without a cluster; test/bench/scrape looks at a cluster that runs.
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

	"k8s.io/apimachinery/pkg/util/yaml"

	"g8s.host/gpu-scheduler/manifests"
)

// Weight is what one scrape is.
type Weight struct{ Series, Bytes int }

func (w Weight) String() string {
	return fmt.Sprintf("%d series, %d KiB", w.Series, (w.Bytes+1023)>>10)
}

// Weigh counts the samples of a scrape without those that are dropped.
func Weigh(text string, dropped *regexp.Regexp) (w Weight) {
	for line := range strings.Lines(text) {
		if name := nameOf(line); !strings.HasPrefix(line, "#") && !dropped.MatchString(name) {
			w.Series++
			w.Bytes += len(line)
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

// monitor is what the Prometheus operator reads of a program.
type monitor struct {
	Metadata struct{ Name string }
	Spec     struct {
		Endpoints []struct {
			MetricRelabelings []struct{ Action, Regex string }
		}
	}
}

// Dropped is what the monitor of a program has Prometheus drop. It matches no metric where that is nothing.
func Dropped(program string) (*regexp.Regexp, error) {
	text, err := manifests.FS.ReadFile("monitoring/monitors.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the monitors: %w", err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var found monitor
		if err := yaml.Unmarshal(document, &found); err != nil {
			return nil, fmt.Errorf("reading the monitors: %w", err)
		}
		if found.Metadata.Name != program {
			continue
		}
		var dropped []string
		for _, endpoint := range found.Spec.Endpoints {
			for _, rule := range endpoint.MetricRelabelings {
				if rule.Action == "drop" {
					dropped = append(dropped, rule.Regex)
				}
			}
		}
		return regexp.Compile("^(?:" + strings.Join(dropped, "|") + ")$")
	}
	return nil, fmt.Errorf("manifests/monitoring has no monitor of %s", program)
}

// Heaviest are the ten metrics of most series.
func Heaviest(text string, dropped *regexp.Regexp) string {
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
