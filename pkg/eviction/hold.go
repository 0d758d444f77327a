// Package eviction decides which running pods may be moved, for which purpose, and interprets the API server's response to an eviction.
// Everything that moves pods uses it: draining a node, defragmentation, recovery of dead nodes, broken GPUs, spot machines and reservations.
//
// [HoldOf] is pure. [Evict] is the only call of the Eviction API. Preemption by priority is not a move: it respects disruption budgets and
// minimum run times, and none of the holds here ([docs/preemption.md]), because otherwise a user could make a job that can never be preempted.
//
// [docs/preemption.md]: ../../docs/preemption.md
package eviction

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Purpose is why a pod is to be moved.
type Purpose string

// The purposes. The set is closed.
const (
	// Defragmentation makes room for another job, which would only start later without it.
	Defragmentation Purpose = "Defragmentation"
	// Reservation clears nodes that are kept for others.
	Reservation Purpose = "Reservation"
	// Drain empties a node that a person wants empty.
	Drain Purpose = "Drain"
	// BrokenGPU ends pods that hold GPUs which do not work any more.
	BrokenGPU Purpose = "BrokenGPU"
	// SpotMachine empties a machine that its cloud reclaims, or that is returned.
	SpotMachine Purpose = "SpotMachine"
	// LostMembers ends members of a gang that cannot go on without others that are lost.
	LostMembers Purpose = "LostMembers"
)

// Hold is why a pod stays where it is until a person decides, "" if nothing holds it.
type Hold string

// The holds. The set is closed.
const (
	// OfNode pods belong to their node: a DaemonSet, or a file of the node, would start them there again.
	OfNode Hold = "OfNode"
	// NoController pods are not restarted.
	NoController Hold = "NoController"
	// NoMigration pods carry the annotation g8s.host/no-migration.
	NoMigration Hold = "NoMigration"
	// NotSafeToEvict pods carry cluster-autoscaler's annotation that says so.
	NotSafeToEvict Hold = "NotSafeToEvict"
)

// safeToEvict is cluster-autoscaler's annotation. "false" has it keep the node of the pod.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// holdConditions are the conditions of the holds.
var holdConditions = map[Hold]func(*corev1.Pod) bool{
	OfNode:         gpu.BelongsToNode,
	NoController:   hasNoController,
	NoMigration:    func(pod *corev1.Pod) bool { return pod.Annotations[names.AnnotationNoMigration] == names.True },
	NotSafeToEvict: func(pod *corev1.Pod) bool { return pod.Annotations[safeToEvict] == "false" },
}

// rules are the holds that apply to each purpose, in the order in which they are reported. What ends a pod in any case, as a broken GPU or a
// reclaimed machine does, moves it even if it is not restarted; what only improves the situation of other pods respects all wishes of its
// author.
var rules = map[Purpose][]Hold{
	Defragmentation: {OfNode, NoMigration, NoController, NotSafeToEvict},
	Reservation:     {OfNode, NoMigration, NoController, NotSafeToEvict},
	Drain:           {OfNode, NoMigration, NoController},
	BrokenGPU:       {OfNode, NoMigration},
	SpotMachine:     {OfNode, NoMigration},
	LostMembers:     {OfNode, NoMigration},
}

// HoldOf returns what keeps a pod from being moved for a purpose, "" if nothing does. Disruption budgets are not included: the API server
// enforces them, and [Evict] reports that.
func HoldOf(pod *corev1.Pod, purpose Purpose) Hold {
	for _, hold := range rules[purpose] {
		if holdConditions[hold](pod) {
			return hold
		}
	}
	return ""
}

// hasNoController reports whether no controller replaces a pod that ends. A Node does not: only static pods are restarted there.
func hasNoController(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Node" && owner.APIVersion == "v1"
}
