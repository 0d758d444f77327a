package queueing

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what one policy made of a trace.
type Report struct {
	Nodes   int     `json:"nodes"`
	Policy  string  `json:"policy"`
	Metrics Metrics `json:"metrics"`
	// Ties are the metrics where chance decided between equal nodes, one a seed.
	Ties []Metrics `json:"ties,omitempty"`
}

// Table is a part of a report as text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Tables shows reports, for people to read: of clusters of one size after another, and each beside the figures of somebody
// else if there are any.
func Tables(reports []Report, theirs []Figure) []Table {
	var tables []Table
	for len(reports) > 0 {
		nodes := reports[0].Nodes
		size := slices.IndexFunc(reports, func(r Report) bool { return r.Nodes != nodes })
		if size < 0 {
			size = len(reports)
		}
		same := reports[:size]
		for _, t := range []Table{delays(same), others(same), chance(same), comparison(same, theirs)} {
			if len(t.Rows) > 0 {
				t.Title = fmt.Sprintf("%d nodes, %s", nodes, t.Title)
				tables = append(tables, t)
			}
		}
		reports = reports[size:]
	}
	return tables
}

func delays(reports []Report) Table {
	t := Table{
		Title: "queue delay in hours: all jobs, then average / p99 by the GPUs asked",
		Head:  []string{"policy", "avg", "p50", "p99", "max", "1", "2-7", "8", ">8", ">=8"},
	}
	for _, r := range reports {
		m := &r.Metrics
		row := []string{r.Policy, fixed(m.Delay.Avg, 2), fixed(m.Delay.P50, 2), fixed(m.Delay.P99, 1), fixed(m.Delay.Max, 0)}
		for _, size := range Sizes {
			d := m.DelayBySize[size.Name]
			row = append(row, fixed(d.Avg, 2)+" / "+fixed(d.P99, 1))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func others(reports []Report) Table {
	t := Table{
		Title: "completion (JCT) in hours, slowdown, use of the cluster, fairness, jobs that waited over 24 h",
		Head: []string{"policy", "JCT avg", "JCT p99", "slowdown", "busy %", "held GPU-h", "held %", "deadlocks",
			"Jain", ">24 h"},
	}
	for _, r := range reports {
		m := &r.Metrics
		t.Rows = append(t.Rows, []string{r.Policy, fixed(m.Completion.Avg, 2), fixed(m.Completion.P99, 1),
			fixed(m.Slowdown, 1), fixed(m.BusyPercent, 1), fixed(m.HeldGPUHours, 0), fixed(m.HeldPercent, 2),
			fmt.Sprint(m.Deadlocks), fixed(m.Fairness, 3), fmt.Sprint(m.WaitedADay)})
	}
	return t
}

// chance shows the least and the most of some figures over all orders of equal nodes.
func chance(reports []Report) Table {
	names := []string{"delay avg", "delay p99", "delay max", "delay avg >8", "delay p99 >8"}
	t := Table{Head: append([]string{"policy"}, names...)}
	for _, r := range reports {
		if len(r.Ties) == 0 {
			continue
		}
		t.Title = fmt.Sprintf("least to most in hours, over %d ways to choose between equal nodes", len(r.Ties)+1)
		row := []string{r.Policy}
		for _, name := range names {
			low, high := figures[name](&r.Metrics), figures[name](&r.Metrics)
			for i := range r.Ties {
				value := figures[name](&r.Ties[i])
				low, high = min(low, value), max(high, value)
			}
			row = append(row, fixed(low, 2)+" – "+fixed(high, 2))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// comparison sets the reports beside the figures of somebody else that are of the same nodes and policies.
func comparison(reports []Report, theirs []Figure) Table {
	table := Table{
		Title: "against the reference",
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

// WriteText writes the table in columns.
func (t Table) WriteText(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, t.Title)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	fmt.Fprintln(columns)
	return columns.Flush()
}

// WriteMarkdown writes the table for a page.
func (t Table) WriteMarkdown(w io.Writer) error {
	rules := strings.Repeat("|---", len(t.Head)) + "|"
	lines := []string{"**" + t.Title + "**", "", line(t.Head), rules}
	for _, row := range t.Rows {
		lines = append(lines, line(row))
	}
	_, err := fmt.Fprintln(w, strings.Join(append(lines, ""), "\n"))
	return err
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
