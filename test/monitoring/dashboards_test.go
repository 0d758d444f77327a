package monitoring

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/manifests"
)

// dashboard is what is looked at of a dashboard of Grafana.
type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
}

// dashboards are those that we ship, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := fs.Glob(manifests.FS, "monitoring/dashboards/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v, %v", files, err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		data, err := manifests.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[file] = d
	}
	return all
}

// variables are what Grafana fills in, and the windows of the test, in which no day passes.
var variables = strings.NewReplacer("$__rate_interval", "10s", "$price", "2", "[1d]", "[10s]", "[1h]", "[10s]")

// dashboardsShowSomething asks the Prometheus of the sandbox each query of each panel. A name or a label that is not
// there has no data; a legend names labels of the answer.
func dashboardsShowSomething(t *testing.T) {
	e := &env{world: &shared, T: t}
	e.pod("full", "waits", 8) // for the panels of what waits
	e.pod("full", "nowhere", 9)
	for file, d := range dashboards(t) {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				expr := variables.Replace(target.Expr)
				var labels map[string]bool
				e.eventually(file+", "+panel.Title+": data of "+expr, func() bool {
					labels = e.prometheus.labels(t.Context(), expr)
					return labels != nil
				})
				for _, part := range strings.Split(target.LegendFormat, "{{")[1:] {
					if name, _, _ := strings.Cut(part, "}}"); !labels[name] {
						t.Errorf("%s, %s: the legend names %s, and the labels are %v", file, panel.Title, name, labels)
					}
				}
			}
		}
	}
}
