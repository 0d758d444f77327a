// Package defrag plans moves of running pods that make room for waiting pods: GPUs that are free one here and two there do not help a pod that needs
// eight on one node. [Plan] is pure; [Read] gathers its input; [Carrier] makes the moves.
//
// A move is an eviction: the pod's controller creates a new pod, which starts again on another node. So a plan has as few moves as possible, of pods
// that can tolerate it, each to a place that is free before the move, so that the moves can be made one at a time. pkg/defrag/moves searches for the
// moves.
//
// These pods are never moved: a pod without a controller, a member of a gang, a pod whose disruption budget allows no disruption, one that has not
// run for a minimum time, one of a higher priority than the waiting pod, one of another scheduler, which would ignore our reservations, one with
// cluster-autoscaler.kubernetes.io/safe-to-evict: "false", and one whose placement depends on more than the node shows: claimed volumes, required pod
// affinity, hard spread constraints.
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

// Facts is the input of a plan.
type Facts struct {
	Now   time.Time
	Nodes []corev1.Node
	// Running are the pods bound to a node.
	Running []corev1.Pod
	// Waiting are the pods for which the scheduler has found no node.
	Waiting []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// Reservations are the reserved nodes, nil for none.
	Reservations *reservation.Book
}

// requestOf returns the request of a pod that would be placed now: it gets no node that is reserved for others.
func (f *Facts) requestOf(pod *corev1.Pod) (*fit.Request, error) {
	request, err := fit.RequestOf(pod)
	if err == nil {
		request.Closed = f.Reservations.ClosedFor(pod, f.Now)
	}
	return request, err
}

// Limits bound a plan.
type Limits struct {
	// Moves is the most pods to move for a waiting one.
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
	// GPUs is its request: whole GPUs, or slots on shared ones.
	GPUs int64 `json:"gpus"`
}

// Move takes a pod from one node to another.
type Move struct {
	Ref
	From string `json:"from"`
	// To has room for the pod. The scheduler may choose another node with room.
	To string `json:"to"`
}

// Proposal is what lets one waiting pod start.
type Proposal struct {
	Ref
	// Node is where the pod will fit. A move on another node makes room there for a pod from this one.
	Node string `json:"node"`
	// Moves are ordered and must be made one after another. There are none if the pod already fits.
	Moves []Move `json:"moves"`
}

// Unhelped is a pod that no moves within the limits can help, and why.
type Unhelped struct {
	Ref
	Why phrase.Text `json:"why"`
}

// Advice is a plan for all waiting pods, in scheduling order. Each proposal builds on those before it.
type Advice struct {
	Proposals []Proposal `json:"proposals"`
	Unhelped  []Unhelped `json:"unhelped"`
}
