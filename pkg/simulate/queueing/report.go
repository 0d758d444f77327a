package queueing

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Report is what one policy made of a trace.
type Report struct {
	Nodes   int     `json:"nodes"`
	Policy  string  `json:"policy"`
	Metrics Metrics `json:"metrics"`
}

// Table is a part of a report as text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Tables are the reports of clusters of one size, for people to read.
func Tables(reports []Report) []Table {
	delays := Table{
		Title: "Queue delay, hours, all jobs and average / p99 by GPUs asked",
		Head:  []string{"policy", "avg", "p50", "p99", "max", "1", "2-7", "8", ">8", ">=8"},
	}
	others := Table{
		Title: "Completion (JCT, hours), slowdown, use of the cluster, fairness",
		Head: []string{"policy", "JCT avg", "JCT p99", "slowdown", "busy %", "held GPU-h", "held %", "deadlocks",
			"Jain", ">24 h"},
	}
	for _, r := range reports {
		m := &r.Metrics
		row := []string{r.Policy, fixed(m.Delay.Avg, 2), fixed(m.Delay.P50, 2), fixed(m.Delay.P99, 1), fixed(m.Delay.Max, 0)}
		for _, size := range Sizes {
			d := m.DelayBySize[size.Name]
			row = append(row, fixed(d.Avg, 2)+" / "+fixed(d.P99, 1))
		}
		delays.Rows = append(delays.Rows, row)
		others.Rows = append(others.Rows, []string{r.Policy, fixed(m.Completion.Avg, 2), fixed(m.Completion.P99, 1),
			fixed(m.Slowdown, 1), fixed(m.BusyPercent, 1), fixed(m.HeldGPUHours, 0), fixed(m.HeldPercent, 2),
			fmt.Sprint(m.Deadlocks), fixed(m.Fairness, 3), fmt.Sprint(m.WaitedADay)})
	}
	return []Table{delays, others}
}

// Comparison sets the reports beside the figures of somebody else, or returns a table without rows where none is of
// the same nodes and policies.
func Comparison(reports []Report, theirs []Figure) Table {
	table := Table{
		Title: "Against the reference",
		Head:  []string{"policy", "figure", "reference", "ours", "difference"},
	}
	for _, r := range reports {
		for _, f := range theirs {
			if f.Nodes == r.Nodes && f.Policy == r.Policy {
				ours, theirs := f.Of(r), fmt.Sprint(f.Value)
				table.Rows = append(table.Rows, []string{r.Policy, f.Name, theirs, fixed(ours, 2), difference(ours, f.Value)})
			}
		}
	}
	return table
}

// Deviation is by how much ours is more than theirs, as a part of theirs; 0 where both are 0.
func Deviation(ours, theirs float64) float64 {
	if ours == theirs {
		return 0
	}
	return (ours - theirs) / math.Abs(theirs)
}

func difference(ours, theirs float64) string {
	return fmt.Sprintf("%+.1f %%", 100*Deviation(ours, theirs))
}

func fixed(value float64, digits int) string { return fmt.Sprintf("%.*f", digits, value) }

// WriteText writes a table in columns.
func (t Table) WriteText(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "%s\n", t.Title)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}

// WriteMarkdown writes a table for a page.
func (t Table) WriteMarkdown(w io.Writer) error {
	rules := strings.Repeat("|---", len(t.Head)) + "|"
	lines := []string{"**" + t.Title + "**", "", line(t.Head), rules}
	for _, row := range t.Rows {
		lines = append(lines, line(row))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
