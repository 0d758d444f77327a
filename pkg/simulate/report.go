package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// maxRefusals is how many kinds of refused pods the table shows.
const maxRefusals = 5

// WriteTable writes results for people: one row each, then what was refused.
func WriteTable(to io.Writer, results []*Result) error {
	table := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CONFIGURATION\tPODS\tPLACED\tGPUS\tASKED\tALLOCATED\tFREE\tFRAGMENTED\tMEAN WAIT\tP50\tP99")
	for _, r := range results {
		mean, median, p99 := "-", "-", "-"
		if r.Delay != nil {
			mean, median, p99 = durationText(r.Delay.Mean), durationText(r.Delay.P50), durationText(r.Delay.P99)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f\t%.2f %%\t%.2f %%\t%.1f GPUs\t%.2f %%\t%s\t%s\t%s\n", r.Name, r.Arrivals, r.Placed, r.GPUs,
			r.ArrivedPercent, r.AllocatedPercent, r.UnallocatedGPUs, r.FragmentedPercent, mean, median, p99)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	for _, r := range results {
		writeMoves(to, r)
		if err := writeRefusals(to, r); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	return nil
}

func writeRefusals(to io.Writer, r *Result) error {
	for i, refusal := range r.Refused {
		if i == 0 {
			fmt.Fprintf(to, "\n%s: pods that fit nowhere\n", r.Name)
		}
		if i == maxRefusals {
			fmt.Fprintf(to, "  and %d more kinds, see -o json\n", len(r.Refused)-i)
			break
		}
		reason := "no reason is known"
		if len(refusal.Reasons) > 0 {
			reason = refusal.Reasons[0]
		}
		if _, err := fmt.Fprintf(to, "  %4d x %s: %s\n", refusal.Pods, refusal.Asks, reason); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes all that is known of the results.
func WriteJSON(to io.Writer, results []*Result) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{"results": results}); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// WriteCSV writes the allocation against what has arrived, in percent, one row for each percent that was reached.
func WriteCSV(to io.Writer, results []*Result) error {
	writer := csv.NewWriter(to)
	rows := [][]string{{"configuration", "arrived_percent", "allocated_percent"}}
	for _, r := range results {
		for percent := 0; ; percent++ {
			allocated, ok := r.AllocatedAt(percent)
			if !ok {
				break
			}
			rows = append(rows, []string{r.Name, strconv.Itoa(percent), strconv.FormatFloat(allocated, 'f', 3, 64)})
		}
	}
	if err := writer.WriteAll(rows); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}
