package queueing

import (
	"context"
	"fmt"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Study is a set of replays of one trace.
type Study struct {
	// Nodes are the sizes of the cluster to replay on.
	Nodes []int
	// Racks is what each cluster is cut into.
	Racks int
	// Policies are replayed on each size.
	Policies []Named
	// Ties is how many more replays each gets in which chance decides between equal nodes, with the seeds 1, 2, …
	Ties int
}

// Run replays the jobs, and reports by size of the cluster and then by policy.
func (s *Study) Run(ctx context.Context, jobs []*trace.Job) ([]Report, error) {
	if s.Ties < 0 {
		return nil, fmt.Errorf("%d replays by chance: want 0 or more", s.Ties)
	}
	var reports []Report
	for _, nodes := range s.Nodes {
		if nodes < 1 || s.Racks < 1 {
			return nil, fmt.Errorf("%d nodes in %d racks: want 1 or more of each", nodes, s.Racks)
		}
		for _, policy := range s.Policies {
			report, err := s.report(ctx, jobs, nodes, policy)
			if err != nil {
				return nil, fmt.Errorf("replaying %s on %d nodes: %w", policy.Name, nodes, err)
			}
			reports = append(reports, report)
		}
	}
	return reports, nil
}

func (s *Study) report(ctx context.Context, jobs []*trace.Job, nodes int, policy Named) (Report, error) {
	report := Report{Nodes: nodes, Policy: policy.Name}
	for seed := range s.Ties + 1 {
		cluster := NewCluster(nodes, s.Racks)
		if seed > 0 {
			cluster.BreakTies(uint64(seed))
		}
		result, err := Replay(ctx, jobs, cluster, policy.New())
		if err != nil {
			return Report{}, err
		}
		if metrics := Measure(result); seed == 0 {
			report.Metrics = metrics
		} else {
			report.Ties = append(report.Ties, metrics)
		}
	}
	return report, nil
}
