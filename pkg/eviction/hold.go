// Package eviction decides which running pods may be moved, for what, and what the API server's answer to an eviction means. All that moves pods
// asks it: draining a node, defragmentation, recovery of dead nodes, broken GPUs, spot machines and reservations.
//
// [HoldOf] is pure. [Evict] is the one call of the Eviction API. Preemption by priority is not a move: it keeps to disruption budgets and
// minimum run times, and to none of the holds here ([docs/preemption.md]), as a user could make a job that no one may preempt otherwise.
//
// [docs/preemption.md]: ../../docs/preemption.md
package eviction

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Purpose is what a pod is to be moved for.
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
	// SpotMachine empties a machine that its cloud takes back, or that is given back.
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
	// NoController pods are started again by nothing.
	NoController Hold = "NoController"
	// NoMigration pods carry the annotation g8s.host/no-migration.
	NoMigration Hold = "NoMigration"
	// NotSafeToEvict pods carry cluster-autoscaler's annotation that says so.
	NotSafeToEvict Hold = "NotSafeToEvict"
)

// safeToEvict is cluster-autoscaler's annotation. "false" has it keep the node of the pod.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// applies are the conditions of the holds.
var applies = map[Hold]func(*corev1.Pod) bool{
	OfNode:         gpu.BelongsToNode,
	NoController:   hasNoController,
	NoMigration:    func(pod *corev1.Pod) bool { return pod.Annotations[names.AnnotationNoMigration] == names.True },
	NotSafeToEvict: func(pod *corev1.Pod) bool { return pod.Annotations[safeToEvict] == "false" },
}

// rules are the holds that count for each purpose, in the order in which they are named. What ends a pod in any case, as its GPU or its machine
// does, moves it though nothing starts it again; what only improves things for others keeps to all wishes of its author.
var rules = map[Purpose][]Hold{
	Defragmentation: {OfNode, NoMigration, NoController, NotSafeToEvict},
	Reservation:     {OfNode, NoMigration, NoController, NotSafeToEvict},
	Drain:           {OfNode, NoMigration, NoController},
	BrokenGPU:       {OfNode, NoMigration},
	SpotMachine:     {OfNode, NoMigration},
	LostMembers:     {OfNode, NoMigration},
}

// HoldOf returns what keeps a pod from being moved for a purpose, "" if nothing does. Disruption budgets are not among it: the API server keeps
// to them, and [Evict] tells.
func HoldOf(pod *corev1.Pod, purpose Purpose) Hold {
	for _, hold := range rules[purpose] {
		if applies[hold](pod) {
			return hold
		}
	}
	return ""
}

// hasNoController reports whether nothing makes a new pod for one that ends. A Node makes none: only the files there are started again.
func hasNoController(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Node" && owner.APIVersion == "v1"
}
