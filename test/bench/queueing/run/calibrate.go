package main

import (
	"context"
	"encoding/json"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/queueing"
)

// The marks between which a page has the table of intervals.
const (
	intervalsBegin = "<!-- table of make bench-queueing-intervals -->\n"
	intervalsEnd   = "<!-- end of the intervals -->\n"
)

// calibrate says how many intervals held, of each policy on each size of the cluster.
func (q *queueingReplay) calibrate(ctx context.Context, jobs []*trace.Job) error {
	var all []queueing.Calibration
	for _, nodes := range q.study.Nodes {
		for _, policy := range q.study.Policies {
			halves, err := queueing.Calibrate(ctx, jobs, nodes, q.study.Racks, policy, q.every)
			if err != nil {
				return err
			}
			all = append(all, halves...)
		}
	}
	table := queueing.CalibrationTable(all)
	switch {
	case q.page != "":
		return writePage(q.page, intervalsBegin, intervalsEnd, []queueing.Table{table})
	case q.output == "json":
		encoder := json.NewEncoder(q.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	case q.output == "markdown":
		return table.WriteMarkdown(q.out)
	}
	return table.WriteText(q.out)
}
