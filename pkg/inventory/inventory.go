// Package inventory is the cluster as one value: nodes and pools with their GPUs, and jobs with what keeps them from
// running. It is the read model of every surface that shows the cluster, so that all of them show the same numbers.
//
// [Build] is pure: typed objects in, a [Cluster] out. [Reader] gathers the objects, in a number of requests that does
// not grow with the cluster, and [Reader.Watch] does it again whenever something changes. JSON keys are a contract.
package inventory

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Objects is what a cluster is built from. A list that was not read stays empty, and the part of the cluster that
// comes from it too: jobs need no Nodes, nodes and pools need no Jobs.
type Objects struct {
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Jobs        []batchv1.Job
	Deployments []appsv1.Deployment
	// Events are looked at for jobs whose pods could not even be created.
	Events []corev1.Event
	// Quotas are those of the jobs' namespaces, nil where they were not read. They tell why pods are not created better
	// than events, which may be of a quota that is gone.
	Quotas []corev1.ResourceQuota
}

// Cluster is the state of a cluster at one moment. Every list is sorted by name.
type Cluster struct {
	Nodes []Node `json:"nodes"`
	Pools []Pool `json:"pools"`
	Jobs  []Job  `json:"jobs"`
}

// Build computes the cluster that the objects describe. It never fails: an object that cannot be understood is
// reported on the row it belongs to.
func Build(objects Objects) Cluster {
	nodes := buildNodes(objects.Nodes, objects.Pods)
	return Cluster{Nodes: nodes, Pools: buildPools(nodes), Jobs: buildJobs(objects)}
}

// GPUs counts whole GPUs, or slots of shared ones.
type GPUs struct {
	// Allocatable is what the nodes offer to pods.
	Allocatable int64 `json:"allocatable"`
	// Used is what pods hold, whoever made them. It exceeds Allocatable when GPUs vanished under running pods.
	Used int64 `json:"used"`
	// Free is what a new pod could get, as the scheduler judges it: 0 on a node that takes no pods, and nothing of cards
	// that are not healthy.
	Free int64 `json:"free"`
	// Unhealthy is how many cards are given to no new pod because they are not healthy.
	Unhealthy int64 `json:"unhealthy,omitempty"`
}

func (g GPUs) plus(other GPUs) GPUs {
	return GPUs{
		Allocatable: addSaturating(g.Allocatable, other.Allocatable),
		Used:        addSaturating(g.Used, other.Used),
		Free:        addSaturating(g.Free, other.Free),
		Unhealthy:   addSaturating(g.Unhealthy, other.Unhealthy),
	}
}

func (g GPUs) isZero() bool { return g == GPUs{} }
