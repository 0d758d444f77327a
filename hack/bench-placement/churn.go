package main

import (
	"fmt"
	"io"
	"path/filepath"

	"g8s.host/gpu-scheduler/pkg/simulate/openb"
	"g8s.host/gpu-scheduler/pkg/simulate/placement"
	"g8s.host/gpu-scheduler/pkg/simulate/tracefile"
)

// How long a run with departures goes, in mean lifetimes: the cluster is as full as it gets after about three.
const (
	warmUp   = 3
	measured = 5
)

// churn prints what the policies make of the default trace when pods also leave, as many being asked for as there are
// GPUs.
func churn(out io.Writer, seeds int) error {
	nodes, pods, err := readDefault()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| policy | allocated % | accepted % of the pods of 8 GPUs |\n|---|---|---|")
	for _, policy := range policies {
		var sum placement.ChurnResult
		for seed := int64(firstSeed); seed < firstSeed+int64(seeds); seed++ {
			run := placement.Churn{Load: 1, WarmUp: warmUp, Measured: measured, Seed: seed}
			result := run.Run(nodes, pods, policy.make(nodes, pods, seed))
			sum.Allocated += result.Allocated / float64(seeds)
			sum.Accepted += result.Accepted / float64(seeds)
		}
		fmt.Fprintf(out, "| %s | %.2f | %.1f |\n", policy.name, sum.Allocated, sum.Accepted)
	}
	return nil
}

// readDefault reads the nodes and the default trace.
func readDefault() ([]openb.Node, []openb.Pod, error) {
	nodes, err := tracefile.Nodes(filepath.Join(kept, nodeList+".gz"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the nodes: %w", err)
	}
	pods, err := tracefile.Pods(filepath.Join(kept, podList+defaultTrace+".csv.gz"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a trace: %w", err)
	}
	return nodes, pods, nil
}
