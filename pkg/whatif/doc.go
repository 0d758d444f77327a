// Package whatif determines where a job would be placed if it were created now: on which nodes and GPUs, and how these were chosen, or why it would
// wait, and what to change. It writes nothing, and only reads the cluster.
//
// The answer comes from the scheduler's own code, which is linked only into gpu-scheduler: neither gpuctl nor the server should carry its hundred
// megabytes. So [RunSimulator] runs `gpu-scheduler simulate answer` as a separate process, whose input is what the caller may read of the cluster.
// The running scheduler is not disturbed, and callers learn nothing that they may not read.
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

// Question is the input of a simulation, as JSON for gpu-scheduler simulate answer.
type Question struct {
	Nodes []corev1.Node `json:"nodes"`
	// Pods are the pods that have a node.
	Pods []corev1.Pod `json:"pods"`
	// Reservations are the reservations of the cluster at the time Now.
	Reservations []names.GPUReservation `json:"reservations,omitempty"`
	Now          time.Time              `json:"now"`
	// Quotas are the GPUQuotas of the cluster.
	Quotas []names.GPUQuota `json:"quotas,omitempty"`
	// Workload contains Kubernetes objects, as gpuctl renders them.
	Workload []json.RawMessage `json:"workload"`
	// Policy is the scoring policy, the content of GPUScore's policyFile; "" is the shipped one.
	Policy string `json:"policy,omitempty"`
}

// Outcome is the result of a simulation, the output of gpu-scheduler simulate answer.
type Outcome struct {
	// Pods are those of the workload, in order: with a node and GPUs, or with a condition that says why not.
	Pods []corev1.Pod `json:"pods"`
	// Evicted are the pods that would be evicted to make room, as namespace/name.
	Evicted []string `json:"evicted,omitempty"`
	// Records say, for each pod, why nodes were rejected, or which nodes were scored.
	Records []explain.Record `json:"records"`
}

// Answer is the prediction for jobs. JSON keys are a contract.
type Answer struct {
	Jobs []Job `json:"jobs"`
	// Evicted are the pods that would be evicted to make room, as namespace/name.
	Evicted []string `json:"evicted,omitempty"`
	// Policy says which scoring policy was used: that of the cluster, or the shipped one.
	Policy string `json:"policy"`
	// Unchecked lists the checks that were skipped for lack of rights, each as an English sentence; UncheckedTexts contains the same as texts.
	Unchecked      []string      `json:"unasked,omitempty"`
	UncheckedTexts []phrase.Text `json:"-"`
}

// Job is the prediction for one job.
type Job struct {
	// Starts says whether the API server admits it, and all its pods can be placed now.
	Starts bool `json:"starts"`
	// Report says where its pods would be placed, or why not and what to change. A job that the API server refuses is not placed.
	diagnosis.Report
}

// Which policy decided.
const (
	PolicyOfCluster = "cluster"
	PolicyShipped   = "shipped"
)
