package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"g8s.host/gpu-scheduler/pkg/simulate/chart"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// published are the means of the published runs: unallocated GPUs in percent at 100 % arrived, by trace and policy.
//
//go:embed published.csv
var published string

//go:embed placement.md.tmpl
var page string

// report writes the page and its plot.
func report(outcomes []outcome, churn *departures, seeds int, out string) error {
	figures, err := parsePublished()
	if err != nil {
		return err
	}
	tables := map[string]string{
		"Seeds": strconv.Itoa(seeds), "Unallocated": table(outcomes, 100, true), "At95": table(outcomes, 95, false),
		"At130": table(outcomes, 130, true), "Published": comparison(outcomes, figures),
		"ChurnSeeds": strconv.Itoa(churnSeeds), "Churn": churn.published, "UniformSeeds": strconv.Itoa(uniformSeeds), "Whole": churn.whole,
	}
	if out == "-" {
		_, err := fmt.Fprintf(os.Stdout, "%s\n%s\n%s\n%s\n%s\n%s", tables["Unallocated"], tables["At95"], tables["At130"],
			tables["Churn"], tables["Whole"], tables["Published"])
		return err
	}
	var text bytes.Buffer
	if err := template.Must(template.New("page").Parse(page)).Execute(&text, tables); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	svg := plot(outcomes[0])
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // documentation is for everyone
		return fmt.Errorf("writing the page: %w", err)
	}
	for name, data := range map[string][]byte{"placement.md": text.Bytes(), "placement.svg": svg} {
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil { //nolint:gosec // likewise
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}

func parsePublished() (map[string]map[string]float64, error) {
	rows, err := csv.NewReader(strings.NewReader(published)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the published figures: %w", err)
	}
	figures := map[string]map[string]float64{}
	for _, row := range rows[1:] {
		figures[row[0]] = map[string]float64{}
		for i, policy := range rows[0][1:] {
			if figures[row[0]][policy], err = strconv.ParseFloat(row[i+1], 64); err != nil {
				return nil, fmt.Errorf("reading the published figures: %w", err)
			}
		}
	}
	return figures, nil
}

// table shows the allocation, or what is not allocated, at a percentage arrived: a row each trace.
func table(outcomes []outcome, percent int, unallocated bool) string {
	var text strings.Builder
	text.WriteString("| trace |")
	for _, policy := range policies {
		fmt.Fprintf(&text, " %s |", policy.name)
	}
	text.WriteString("\n|" + strings.Repeat("---|", len(policies)+1) + "\n")
	for _, outcome := range outcomes {
		fmt.Fprintf(&text, "| %s |", outcome.trace)
		for _, policy := range policies {
			mean, deviation := statistics(outcome.series[policy.name], percent)
			if unallocated {
				mean = 100 - mean
			}
			fmt.Fprintf(&text, " %.2f ± %.2f |", mean, deviation)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// comparison shows how far our runs of the published policies are from the published figures.
func comparison(outcomes []outcome, figures map[string]map[string]float64) string {
	var text strings.Builder
	text.WriteString("| trace | policy | published | here | difference |\n|---|---|---|---|---|\n")
	for _, outcome := range outcomes {
		for _, policy := range policies {
			want, ok := figures[outcome.trace][policy.name]
			if !ok {
				continue
			}
			mean, _ := statistics(outcome.series[policy.name], 100)
			fmt.Fprintf(&text, "| %s | %s | %.2f | %.2f | %+.2f |\n", outcome.trace, policy.name, want, 100-mean, 100-mean-want)
		}
	}
	return text.String()
}

// statistics returns the mean over the seeds, and their standard deviation.
func statistics(series []trace.Series, percent int) (mean, deviation float64) {
	values := make([]float64, len(series))
	for i := range series {
		values[i] = series[i][percent]
	}
	return spread(values)
}

// spread returns the mean of some values, and their standard deviation.
func spread(values []float64) (mean, deviation float64) {
	for _, value := range values {
		mean += value / float64(len(values))
	}
	for _, value := range values {
		deviation += (value - mean) * (value - mean)
	}
	return mean, math.Sqrt(deviation / float64(max(len(values)-1, 1)))
}

// plot draws the first trace.
func plot(first outcome) []byte {
	lines := chart.Lines{
		Title: "Trace " + first.trace + ": GPUs allocated as pods arrive", X: "GPUs asked for (% of all)", Y: "GPUs allocated (% of all)",
		MinX: 70, MinY: 70,
	}
	for i := len(policies) - 1; i >= 0; i-- {
		line := chart.Line{Name: policies[i].name}
		for percent := range trace.Percents {
			mean, _ := statistics(first.series[policies[i].name], percent)
			line.Points = append(line.Points, chart.Point{X: float64(percent), Y: mean})
		}
		lines.Lines = append(lines.Lines, line)
	}
	return lines.SVG()
}
