package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html.tmpl
var pageText string

// page is the report: one file that a browser opens without a network.
var page = template.Must(template.New("report").Funcs(template.FuncMap{"duration": durationText}).Parse(pageText))

// WriteHTML writes a page with the results and the plots.
func WriteHTML(to io.Writer, results []*Result) error {
	drawn := DrawPlots(results)
	plots := make([]template.HTML, len(drawn))
	for i, svg := range drawn {
		plots[i] = inlineSVG(svg)
	}
	timed := false
	for _, r := range results {
		timed = timed || r.Delay != nil
	}
	if err := page.Execute(to, map[string]any{"Results": results, "Plots": plots, "Timed": timed}); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// inlineSVG embeds an image of our own.
func inlineSVG(svg []byte) template.HTML {
	return template.HTML(svg) //nolint:gosec // package chart escapes the names in it
}

// durationText formats seconds in a suitable unit.
func durationText(seconds float64) string {
	switch {
	case seconds >= 2*3600:
		return fmt.Sprintf("%.1f h", seconds/3600)
	case seconds >= 2*60:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f s", seconds)
}
