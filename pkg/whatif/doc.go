// Package whatif answers where a job would go if it came now: on which nodes and cards, and how these were chosen, or why
// not, and what to change. Nothing is written, and nobody is asked but for what is there.
//
// The answer comes from the scheduler's own code, which is linked into gpu-scheduler alone: a hundred megabytes that
// neither gpuctl nor the server should start with. So [Ask] runs `gpu-scheduler simulate answer` as a process of its own,
// with what the caller may read of the cluster as its input. The scheduler at work is not disturbed, and nobody learns
// what they may not read.
package whatif

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Question is what a simulation is to decide: the input of gpu-scheduler simulate answer, as JSON.
type Question struct {
	Nodes []corev1.Node `json:"nodes"`
	// Pods are those that hold a place on a node.
	Pods []corev1.Pod `json:"pods"`
	// Reservations are those of the cluster at a time, Now.
	Reservations []names.GPUReservation `json:"reservations,omitempty"`
	Now          time.Time              `json:"now"`
	// Quotas are the GPUQuotas of the cluster.
	Quotas []names.GPUQuota `json:"quotas,omitempty"`
	// Workload is objects of Kubernetes, as gpuctl renders them.
	Workload []json.RawMessage `json:"workload"`
	// Policy is the scoring policy, the content of GPUScore's policyFile; "" is the one that is shipped.
	Policy string `json:"policy,omitempty"`
}

// Outcome is what the simulation decided: the output of gpu-scheduler simulate answer.
type Outcome struct {
	// Pods are those of the workload, in order: with a node and cards, or with the condition that says why not.
	Pods []corev1.Pod `json:"pods"`
	// Evicted are the pods that would make room, namespace/name.
	Evicted []string `json:"evicted,omitempty"`
	// Records tell of each pod what kept nodes from taking it, or which nodes were weighed.
	Records []explain.Record `json:"records"`
}

// Answer is what would become of jobs. JSON keys are a contract.
type Answer struct {
	Jobs []Job `json:"jobs"`
	// Evicted are the pods that would be evicted to make room, namespace/name.
	Evicted []string `json:"evicted,omitempty"`
	// Policy says which scoring policy decided: that of the cluster, or the one that is shipped.
	Policy string `json:"policy"`
	// Unasked are what could not be asked of the API server for want of rights, each a sentence in English; Said is what
	// they are made of.
	Unasked []string      `json:"unasked,omitempty"`
	Said    []phrase.Text `json:"-"`
}

// Job is what would become of one job.
type Job struct {
	// Starts says whether the API server lets it in, and all its pods have a place now.
	Starts bool `json:"starts"`
	// Report says where its pods would be, or what stands against it and what to change. A job that the API server does
	// not let in is not looked for a place for.
	diagnosis.Report
}

// Which policy decided.
const (
	PolicyOfCluster = "cluster"
	PolicyShipped   = "shipped"
)
