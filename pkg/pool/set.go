package pool

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Set plans to make a pool exactly the nodes of p: they join, as [Join] has it, and all others of the pool leave.
func Set(p *workload.Pool, nodes []corev1.Node) Plan {
	plan := Join(p, nodes)
	for i := range nodes {
		stays := slices.ContainsFunc(p.Nodes, func(member workload.PoolNode) bool { return member.Name == nodes[i].Name })
		if nodes[i].Labels[names.LabelPool] == p.Name && !stays {
			plan.add(leave(&nodes[i]))
		}
	}
	return plan
}
