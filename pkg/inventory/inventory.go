// Package inventory is the cluster as one value: nodes and pools with their GPUs, and jobs with what keeps them from running. It is the read model of
// every surface that shows the cluster, so that all of them show the same numbers.
//
// [Build] is a pure function of a snapshot. [Reader] defines which snapshot each answer is built from. JSON keys are a contract.
package inventory

import (
	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Cluster is the state of a cluster at one moment. Every list is sorted by name.
type Cluster struct {
	Nodes []Node `json:"nodes"`
	Pools []Pool `json:"pools"`
	Jobs  []Job  `json:"jobs"`
}

// Build computes the cluster that the objects describe: jobs need no nodes, nodes and pools need no jobs. It never fails: an object that cannot be
// understood is reported on the row that it belongs to. Events explain why pods could not be created. Quotas, if they were read, take precedence,
// since an event may be about a deleted quota.
func Build(objects *snapshot.Snapshot) Cluster {
	nodes := buildNodes(objects.Nodes, objects.Pods, objects.GPUPools)
	return Cluster{Nodes: nodes, Pools: buildPools(nodes, objects.GPUPools), Jobs: buildJobs(objects)}
}

// GPUs counts whole GPUs, or slots of shared ones.
type GPUs struct {
	// Allocatable is what the nodes offer to pods.
	Allocatable int64 `json:"allocatable"`
	// Used is what pods hold, regardless of their creator. It exceeds Allocatable when GPUs vanished under running pods.
	Used int64 `json:"used"`
	// Free is what a new pod could get, as the scheduler judges it. It is 0 on a node that takes no pods, and excludes unhealthy GPUs.
	Free int64 `json:"free"`
	// Unhealthy is how many GPUs are given to no new pod because they are not healthy.
	Unhealthy int64 `json:"unhealthy,omitempty"`
}

// Add adds up the GPUs of two nodes, or of more. No sum wraps.
func (g GPUs) Add(other GPUs) GPUs {
	return GPUs{
		Allocatable: amounts.Add(g.Allocatable, other.Allocatable),
		Used:        amounts.Add(g.Used, other.Used),
		Free:        amounts.Add(g.Free, other.Free),
		Unhealthy:   amounts.Add(g.Unhealthy, other.Unhealthy),
	}
}

func (g GPUs) isZero() bool { return g == GPUs{} }
