package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// keepSettings prints what ours makes of traces, when pods also leave, by how many nodes in a thousand are kept whole.
func keepSettings(out io.Writer, folder, settings string, w workload) error {
	var perMille []int64
	for _, setting := range strings.Split(settings, ",") {
		value, err := strconv.ParseInt(setting, 10, 64)
		if err != nil {
			return fmt.Errorf("reading -keep, want numbers and commas: %w", err)
		}
		perMille = append(perMille, value)
	}
	nodes, traces, err := readTraces(folder)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| trace | keepWholePerMille | allocated % | accepted % of the pods of 8 GPUs | refused % of all pods, though they fit |\n"+
		"|---|---|---|---|---|")
	for _, t := range traces {
		w.nodes, w.pods = nodes, t.pods
		for _, value := range perMille {
			mean, deviation := w.run(policy{ours, leastFragmentation(value)}, 1)
			fmt.Fprintf(out, "| %s | %d | %.2f ± %.2f | %.1f ± %.1f | %.2f |\n", t.name, value,
				mean.Allocated, deviation.Allocated, mean.Accepted, deviation.Accepted, mean.Refused)
		}
	}
	return nil
}
