// Package explain keeps why pods are where they are: for each pod the last attempt to place it, with the reasons by
// number of nodes, the nearest misses, and for a placed pod the scores of the candidates and the chosen cards.
//
// A scheduler's message must stay short, and is the same for all pods that fail alike. What is kept here is for the
// one person who asks about one pod. The values are plain, their JSON keys are a contract; a [Recorder] holds them
// within bounds. Nothing here knows a scheduler or a network.
package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of one attempt. Nodes are many, and what is beyond the first few of each list helps nobody.
const (
	// MaxReasons is how many different reasons an attempt keeps, those of the most nodes first.
	MaxReasons = 32
	// MaxNearMisses is how many nearest misses an attempt keeps.
	MaxNearMisses = 3
	// MaxCandidates is how many scored candidates an attempt keeps, the best first.
	MaxCandidates = 5
)

// Result is how an attempt ended.
type Result string

// The results of an attempt.
const (
	// Unschedulable found no node for the pod.
	Unschedulable Result = "Unschedulable"
	// Placed bound the pod to a node.
	Placed Result = "Placed"
)

// Record is what is known of one pod.
type Record struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Job is the name of the gpuctl job that the pod belongs to, "" for none.
	Job string `json:"job,omitempty"`
	// Attempts counts how often the scheduler tried, since it started or took over.
	Attempts int64 `json:"attempts"`
	// First is the time of the first of them.
	First time.Time `json:"first"`
	// Explained is which of the attempts Last is. It is not the last one of all while the scheduler is too busy to look
	// into each, and 0 as long as it has looked into none of the result that Last has: then Last has no reasons.
	Explained int64 `json:"explained"`
	// Last is the last attempt that was looked into, or the last of all where Explained is 0.
	Last Attempt `json:"last"`
}

// Attempt is one try to place a pod.
type Attempt struct {
	Time   time.Time `json:"time"`
	Result Result    `json:"result"`
	// Nodes is the number of nodes that the scheduler knew.
	Nodes int `json:"nodes"`
	// Reasons say why nodes were rejected, those of the most nodes first. A node that several things stand
	// against counts in each.
	Reasons []Reason `json:"reasons,omitempty"`
	// NearMisses are the nodes that came nearest to taking the pod, the nearest first.
	NearMisses []NearMiss `json:"nearMisses,omitempty"`
	// Node is where the pod was placed.
	Node string `json:"node,omitempty"`
	// Feasible is the number of nodes with the GPUs for a placed pod, 0 when only one node was looked at.
	Feasible int `json:"feasible,omitempty"`
	// Candidates are the best of them by score, the best first.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Devices are the cards of a placed pod, in the form of the annotation g8s.host/gpu-devices.
	Devices string `json:"devices,omitempty"`
	// DevicesReason says what speaks for these cards.
	DevicesReason string `json:"devicesReason,omitempty"`
}

// Reason is one thing that stands against some nodes.
type Reason struct {
	Text string `json:"text"`
	// Plugin is the scheduler's plugin that said so, "" when unknown.
	Plugin string `json:"plugin,omitempty"`
	Nodes  int    `json:"nodes"`
}

// NearMiss is a node of the right pool and type, without enough GPUs for the pod at the moment.
type NearMiss struct {
	Node string `json:"node"`
	// Short is how many GPUs or slots are missing.
	Short int64 `json:"short"`
	// Detail has the numbers, such as "6 of 8 free, 2 short".
	Detail string `json:"detail"`
}

// Candidate is a node that could take a pod, and what it was worth.
type Candidate struct {
	Node string `json:"node"`
	// Score is the node's worth to GPUScore, 0–100. Other plugins only decide among equals.
	Score int64 `json:"score"`
	// Parts are what the score is the weighted mean of.
	Parts []Part `json:"parts,omitempty"`
}

// Part is one part of a score.
type Part struct {
	Name string `json:"name"`
	// Value is 0–100.
	Value  int64 `json:"value"`
	Weight int64 `json:"weight"`
}

// size estimates the memory that an attempt takes, in bytes.
func (a *Attempt) size() int {
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

// bounded cuts the lists of an attempt to what is kept. They are sorted already.
func (a *Attempt) bounded() {
	a.Reasons = a.Reasons[:min(len(a.Reasons), MaxReasons)]
	a.NearMisses = a.NearMisses[:min(len(a.NearMisses), MaxNearMisses)]
	a.Candidates = a.Candidates[:min(len(a.Candidates), MaxCandidates)]
}
