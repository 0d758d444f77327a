// Package explain records why pods are where they are: for each pod the last scheduling attempt, with the reasons by number of nodes, the nearest
// misses, and for a placed pod the scores of the candidates and the chosen GPUs.
//
// A scheduler's message must stay short, and is the same for all pods that fail alike. The records are for a user who asks about a specific pod. The
// values are plain, and their JSON keys are a contract; a [Recorder] bounds their number and size. The package knows neither a scheduler nor a
// network.
package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of one attempt. There are many nodes, and entries beyond the first few of each list are of no use.
const (
	// MaxReasons is the maximum number of different reasons of an attempt, those of the most nodes first.
	MaxReasons = 32
	// MaxNearMisses is the maximum number of near misses of an attempt.
	MaxNearMisses = 3
	// MaxCandidates is the maximum number of scored candidates of an attempt, the best first.
	MaxCandidates = 5
)

// Result is the outcome of an attempt.
type Result string

// The results of an attempt.
const (
	// Unschedulable found no node for the pod.
	Unschedulable Result = "Unschedulable"
	// Placed bound the pod to a node.
	Placed Result = "Placed"
)

// Record is the record of one pod.
type Record struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Job is the name of the gpuctl job that the pod belongs to, "" for none.
	Job string `json:"job,omitempty"`
	// Attempts counts the scheduling attempts since this scheduler started or became the leader.
	Attempts int64 `json:"attempts"`
	// First is the time of the first attempt.
	First time.Time `json:"first"`
	// Explained is the number of the attempt in Last. It is less than Attempts if the scheduler was too busy to explain each attempt, and 0 if it has
	// explained none with the result of Last: then Last has no reasons.
	Explained int64 `json:"explained"`
	// Last is the last explained attempt, or the last of all if Explained is 0.
	Last Attempt `json:"last"`
}

// Attempt is one scheduling attempt of a pod.
type Attempt struct {
	Time   time.Time `json:"time"`
	Result Result    `json:"result"`
	// Nodes is the number of nodes known to the scheduler.
	Nodes int `json:"nodes"`
	// Reasons say why nodes were rejected, those of the most nodes first. A node rejected for several reasons counts in each.
	Reasons []Reason `json:"reasons,omitempty"`
	// NearMisses are the nodes that came closest to fitting the pod, the closest first.
	NearMisses []NearMiss `json:"nearMisses,omitempty"`
	// Node is the node of a placed pod.
	Node string `json:"node,omitempty"`
	// Feasible is the number of nodes with enough GPUs for a placed pod, 0 if only one node was checked.
	Feasible int `json:"feasible,omitempty"`
	// Candidates are the feasible nodes with the best scores, the best first.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Devices are the GPUs of a placed pod, in the format of the annotation g8s.host/gpu-devices.
	Devices string `json:"devices,omitempty"`
	// DevicesReason says why these GPUs were chosen.
	DevicesReason string `json:"devicesReason,omitempty"`
}

// Reason is one reason why nodes were rejected.
type Reason struct {
	Text string `json:"text"`
	// Plugin is the scheduler plugin that rejected them, "" if unknown.
	Plugin string `json:"plugin,omitempty"`
	Nodes  int    `json:"nodes"`
}

// NearMiss is a node of the right pool and type without enough free GPUs for the pod.
type NearMiss struct {
	Node string `json:"node"`
	// Short is the number of missing GPUs or slots.
	Short int64 `json:"short"`
	// Detail contains the numbers, such as "6 of 8 free, 2 short".
	Detail string `json:"detail"`
}

// Candidate is a feasible node with its score.
type Candidate struct {
	Node string `json:"node"`
	// Score is GPUScore's score of the node, 0–100. Other plugins only break ties.
	Score int64 `json:"score"`
	// Parts are the components of the score, which is their weighted mean.
	Parts []Part `json:"parts,omitempty"`
}

// Part is one part of a score.
type Part struct {
	Name string `json:"name"`
	// Value is 0–100.
	Value  int64 `json:"value"`
	Weight int64 `json:"weight"`
}

// estimateSize estimates the memory of an attempt in bytes.
func (a *Attempt) estimateSize() int {
	const attempt, entry = 256, 64
	size := attempt + len(a.Node) + len(a.Devices) + len(a.DevicesReason)
	for i := range a.Reasons {
		size += entry + len(a.Reasons[i].Text) + len(a.Reasons[i].Plugin)
	}
	for i := range a.NearMisses {
		size += entry + len(a.NearMisses[i].Node) + len(a.NearMisses[i].Detail)
	}
	for i := range a.Candidates {
		size += entry + len(a.Candidates[i].Node) + entry*len(a.Candidates[i].Parts)
	}
	return size
}

// truncateLists truncates the lists of an attempt, which must be sorted.
func (a *Attempt) truncateLists() {
	a.Reasons = a.Reasons[:min(len(a.Reasons), MaxReasons)]
	a.NearMisses = a.NearMisses[:min(len(a.NearMisses), MaxNearMisses)]
	a.Candidates = a.Candidates[:min(len(a.Candidates), MaxCandidates)]
}
