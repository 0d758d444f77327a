package simulate

import (
	"bytes"
	"fmt"
	"html/template"
	"io"

	"g8s.host/gpu-scheduler/pkg/simulate/chart"
)

// page is the report: one file that a browser opens without a network.
var page = template.Must(template.New("report").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Placement simulation</title><style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left } svg { max-width: 100%; height: auto }
</style></head><body><h1>Placement simulation</h1>
<table><tr><th>Configuration</th><th>Pods</th><th>Placed</th><th>GPUs</th><th>Asked %</th><th>Allocated %</th><th>Unallocated GPUs</th></tr>
{{range .Results}}<tr><td>{{.Name}}</td><td>{{.Arrivals}}</td><td>{{.Placed}}</td><td>{{printf "%.0f" .GPUs}}</td>
<td>{{printf "%.2f" .ArrivedPercent}}</td><td>{{printf "%.2f" .AllocatedPercent}}</td><td>{{printf "%.1f" .UnallocatedGPUs}}</td></tr>
{{end}}</table>
{{range .Plots}}{{.}}
{{end}}{{range .Results}}{{if .Refused}}<h2>{{.Name}}: pods that fit nowhere</h2>
<table><tr><th>Asks</th><th>Pods</th><th>GPUs</th><th>Most frequent reason</th></tr>
{{range .Refused}}<tr><td>{{.Asks}}</td><td>{{.Pods}}</td><td>{{printf "%.1f" .GPUs}}</td><td>{{if .Reasons}}{{index .Reasons 0}}{{end}}</td></tr>
{{end}}</table>{{end}}{{end}}
</body></html>
`))

// WriteHTML writes a page with the results and the plots.
func WriteHTML(to io.Writer, results []*Result) error {
	svg, err := AllocationSVG(results)
	if err != nil {
		return err
	}
	plots := []template.HTML{inline(svg)}
	err = page.Execute(to, map[string]any{"Results": results, "Plots": plots})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// inline embeds an image that we drew ourselves, without the XML header before it.
func inline(svg []byte) template.HTML {
	return template.HTML(svg[max(0, bytes.Index(svg, []byte("<svg"))):]) //nolint:gosec // names in it are escaped by the plotter
}

// AllocationSVG draws the allocation against what has arrived.
func AllocationSVG(results []*Result) ([]byte, error) {
	plot := chart.Lines{
		Title: "Allocated GPUs against GPUs asked for", X: "asked for (% of all GPUs)", Y: "allocated (% of all GPUs)",
	}
	for _, r := range results {
		line := chart.Line{Name: r.Name}
		for percent := 0; ; percent++ {
			allocated, ok := r.AllocatedAt(percent)
			if !ok {
				break
			}
			line.Points = append(line.Points, chart.Point{X: float64(percent), Y: allocated})
		}
		plot.Lines = append(plot.Lines, line)
	}
	return plot.SVG()
}
