// Package defrag plans moves of running pods that make room for pods that wait: GPUs that are free one here and two
// there serve nobody who needs eight on one node. [Plan] is pure; [Read] gathers its facts; [Carrier] makes the moves.
//
// A move is an eviction: the pod's controller makes a new pod, which starts again on
// another node. So a plan has as few moves as there can be, of pods that can bear it, each to a place that is free
// before the move, so that the moves can be made one at a time. What the moves are is searched for in pkg/defrag/moves.
//
// What is never moved: a pod that nothing would make again, a member of a gang, a pod whose disruption budget allows
// none, one that has not run for a minimum of time, one of a higher priority than the pod that waits, one of another
// scheduler, which would not know what is kept for whom, one that carries
// cluster-autoscaler.kubernetes.io/safe-to-evict: "false", and one whose place also depends on what a node does not
// show: claimed volumes, required affinity between pods, a hard spread.
package defrag

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// Facts is what a plan is made from.
type Facts struct {
	Now   time.Time
	Nodes []corev1.Node
	// Running are the pods that hold a place on a node.
	Running []corev1.Pod
	// Waiting are the pods for which the scheduler has found no node.
	Waiting []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// Reservations are the nodes that are kept for some, nil for none.
	Reservations *reservation.Book
}

// requestOf is what a pod asks that would be placed now: it gets no node that is kept from it.
func (f *Facts) requestOf(pod *corev1.Pod) (*fit.Request, error) {
	request, err := fit.RequestOf(pod)
	if err == nil {
		request.Closed = f.Reservations.Against(pod, f.Now)
	}
	return request, err
}

// Limits bound what a plan may ask for.
type Limits struct {
	// Moves is the most pods to move for one that waits.
	Moves int
	// MinRun is how long a pod must have run before it may be moved.
	MinRun time.Duration
}

// DefaultLimits are those of gpuctl.
var DefaultLimits = Limits{Moves: 16, MinRun: 10 * time.Minute}

// Ref names a pod and the job it belongs to.
type Ref struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"uid,omitempty"`
	// Job and Kind are empty for a pod that belongs to no job of gpuctl.
	Job  string `json:"job,omitempty"`
	Kind string `json:"kind,omitempty"`
	// GPUs is what it asks: whole GPUs, or slots on shared ones.
	GPUs int64 `json:"gpus"`
}

// Move takes a pod from one node to another.
type Move struct {
	Ref
	From string `json:"from"`
	// To has room for it. The scheduler may choose another node that has.
	To string `json:"to"`
}

// Proposal is what lets one pod that waits start.
type Proposal struct {
	Ref
	// Node is where the pod will fit. A move from another node makes room there for one from this.
	Node string `json:"node"`
	// Moves are to be made one after another, in this order. There are none when the pod fits as things are.
	Moves []Move `json:"moves"`
}

// Unhelped is a pod for which no moves within the limits make room, and why.
type Unhelped struct {
	Ref
	Why phrase.Text `json:"why"`
}

// Advice is a plan for all pods that wait, those first that the scheduler tries first. Each proposal counts on those
// before it.
type Advice struct {
	Proposals []Proposal `json:"proposals"`
	Unhelped  []Unhelped `json:"unhelped"`
}
