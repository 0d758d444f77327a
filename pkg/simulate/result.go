package simulate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Result is the result of a run. GPUs are counted whole; a share of one counts as its part of the GPU's memory.
type Result struct {
	// Name is that of the candidate.
	Name string `json:"name"`
	Seed int64  `json:"seed"`

	Nodes int     `json:"nodes"`
	GPUs  float64 `json:"gpus"`
	// Arrivals is how many pods came, Placed how many of them got a node.
	Arrivals int `json:"arrivals"`
	Placed   int `json:"placed"`
	// Withdrawn is how many left before they got one.
	Withdrawn int `json:"withdrawn,omitempty"`
	// AskedGPUs is what pods asked for, those that ran already included.
	AskedGPUs       float64 `json:"askedGPUs"`
	AllocatedGPUs   float64 `json:"allocatedGPUs"`
	UnallocatedGPUs float64 `json:"unallocatedGPUs"`
	// ArrivedPercent and AllocatedPercent are AskedGPUs and AllocatedGPUs as shares of all GPUs, at the end.
	ArrivedPercent   float64 `json:"arrivedPercent"`
	AllocatedPercent float64 `json:"allocatedPercent"`
	// FragmentedPercent is how much of all GPUs is free but unusable for the pods of the workload, on average.
	FragmentedPercent float64 `json:"fragmentedPercent"`
	// Delay is how long pods waited for a node, Completion how long from arrival to end. Both are absent where no
	// arrival has a lifetime.
	Delay      *Distribution `json:"delaySeconds,omitempty"`
	Completion *Distribution `json:"completionSeconds,omitempty"`
	// Refused are the pods that still wait at the end, grouped by request and reason.
	Refused []Refusal `json:"refused"`
	// Decisions are the placements in the order in which they were made.
	Decisions []Decision `json:"decisions,omitempty"`
	// Evictions are the pods that made room for others. Each comes back at once and starts over.
	Evictions []Eviction `json:"evictions,omitempty"`
	// Moves are the pods that were moved to make room, see [Moves].
	Moves []Move `json:"moves,omitempty"`

	series   trace.Series
	timeline timeline
}

// Distribution sums up durations, in seconds.
type Distribution struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Refusal is a group of pods that ask for the same and fit nowhere for the same first reason.
type Refusal struct {
	Asks string  `json:"asks"`
	Pods int     `json:"pods"`
	GPUs float64 `json:"gpus"`
	// Reasons are why nodes reject one of them, the most frequent first.
	Reasons []string `json:"reasons,omitempty"`
}

// Decision is where a pod went.
type Decision struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Arrival is the place of the pod among the arrivals, from 0; below 0 for a pod of the cluster that was evicted.
	Arrival int `json:"-"`
	// Devices is the annotation g8s.host/gpu-devices.
	Devices string `json:"devices,omitempty"`
	// At is when, in seconds from the start.
	At float64 `json:"at,omitempty"`
}

// AllocatedAt returns the allocated share of all GPUs, in percent, at the time when pods had requested the given percentage of them: the mean over
// the arrivals that round to it. ok is false if that much was never requested.
func (r *Result) AllocatedAt(arrivedPercent int) (allocated float64, ok bool) {
	if arrivedPercent < 0 || arrivedPercent >= trace.Percents || float64(arrivedPercent) > r.ArrivedPercent+0.5 {
		return 0, false
	}
	return r.series[arrivedPercent], true
}

// describeRequest summarizes a pod's GPU request.
func describeRequest(pod *corev1.Pod) string {
	demand, err := gpu.DemandOf(pod)
	text := "no GPU"
	switch {
	case err != nil:
		return "a request that cannot be read"
	case demand.Shared > 0:
		text = fmt.Sprintf("%s of %d shared GPU(s)", pod.Annotations[names.AnnotationGPUShare], demand.Shared)
	case demand.Whole > 0:
		text = fmt.Sprintf("%d GPU(s)", demand.Whole)
	case demand.MIG > 0:
		text = fmt.Sprintf("%d MIG slice(s)", demand.MIG)
	}
	if types := pod.Annotations[names.AnnotationGPUTypes]; types != "" {
		text += " of type " + types
	}
	return text
}

// Eviction is a pod that made room for another of higher priority.
type Eviction struct {
	Pod string `json:"pod"`
	For string `json:"for"`
	// At is when, in seconds from the start.
	At float64 `json:"at,omitempty"`
}
