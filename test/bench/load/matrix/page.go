package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// intro says what is measured, and how to read it. Figures follow.
//
//go:embed intro.md
var intro string

// figures are the cells that have been measured.
type figures struct {
	// Go and CPUs are those of the last run.
	Go    string
	CPUs  int
	Cells []cell
	Sizes []size `json:",omitempty"`
}

// put adds a cell in place of an earlier measurement.
func (f *figures) put(c cell) {
	f.Go, f.CPUs = runtime.Version(), runtime.NumCPU()
	if known := f.cell(c.Row, c.Column); known != nil {
		*known = c
		return
	}
	f.Cells = append(f.Cells, c)
}

// cell returns what was measured, nil if nothing was.
func (f *figures) cell(row, column string) *cell {
	for i := range f.Cells {
		if f.Cells[i].Row == row && f.Cells[i].Column == column {
			return &f.Cells[i]
		}
	}
	return nil
}

// save writes the figures, the page and the heat map.
func (f *figures) save(folder string) error {
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	for name, content := range map[string]string{
		"matrix.json": string(data) + "\n", "matrix.md": f.markdown(), "matrix.svg": f.heatMap(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	return nil
}

func (f *figures) markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	fmt.Fprintf(&b, "\n## Figures\n\n%s, %d CPUs. %s\n", f.Go, f.CPUs, f.summary())
	b.WriteString("\n![CPU of a pod, by that of the stock scheduler](matrix.svg)\n")
	b.WriteString(f.scale())
	b.WriteString("\n## Every column\n")
	for i := range columns {
		if table := f.table(&columns[i]); table != "" {
			fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n%s", columns[i].name, columns[i].axes.describe(), table)
		}
	}
	return b.String()
}

// summary counts the cells by their ratio.
func (f *figures) summary() string {
	var ratios []float64
	above, faster := 0, 0
	for i := range f.Cells {
		c := &f.Cells[i]
		middle, least, _ := c.ratio()
		ratios = append(ratios, middle)
		if least > 1 {
			above++
		}
		if len(c.Batching) > 0 && middleOf(c.Batching) < middleOf(c.Ours) {
			faster++
		}
	}
	if len(ratios) == 0 {
		return "Nothing has been measured."
	}
	slices.Sort(ratios)
	return fmt.Sprintf("The median of %d cells is %.2f × stock, the highest %.2f; in %d cells a pod costs more than with stock in every round, "+
		"and in %d more than with stock's batching.", len(ratios), median(ratios), ratios[len(ratios)-1], above, faster)
}

func (f *figures) table(column *column) string {
	var b strings.Builder
	for i := range rows {
		c := f.cell(rows[i].name, column.name)
		if c == nil {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("| pods | ours, µs | stock, µs | ratio | from – to | stock, batching, µs |\n|---|---|---|---|---|---|\n")
		}
		middle, least, most := c.ratio()
		batching := "–"
		if len(c.Batching) > 0 {
			batching = fmt.Sprintf("%.0f", middleOf(c.Batching))
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.2f | %.2f – %.2f | %s |\n",
			c.Row, middleOf(c.Ours), middleOf(c.Stock), middle, least, most, batching)
	}
	return b.String()
}

func middleOf(values []float64) float64 { return median(slices.Sorted(slices.Values(values))) }

// describe says what a column's cluster and requests are.
func (a *axes) describe() string {
	requests := fmt.Sprintf("%d different requests", a.shapes)
	switch a.shapes {
	case 0:
		requests = "no two requests alike"
	case 1:
		requests = "one request"
	}
	hosts := "equal hosts"
	if a.uneven {
		hosts = "hosts that all differ by some MiB, with cards of 100 sizes"
	}
	asked := ""
	if a.asked > 0 {
		asked = fmt.Sprintf(", for %d of the %d pools", a.asked, a.pools)
	}
	return fmt.Sprintf("%d nodes, %d in each pool and type; %s; %s%s; %.0f %% of the GPUs in use",
		a.nodes, a.nodes/a.pools/a.types, hosts, requests, asked, 100*a.state.share())
}

// share is the part of the GPUs that is in use.
func (s state) share() float64 {
	used := 0
	for _, node := range s {
		for _, gpus := range node {
			used += gpus
		}
	}
	return float64(used) / float64(8*len(s))
}
