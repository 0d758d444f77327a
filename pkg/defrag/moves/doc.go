// Package moves finds the fewest moves of pods between nodes that make room for one more pod. It accesses nodes and pods only through a [Cluster]:
// pkg/defrag implements it on Kubernetes objects, pkg/simulate/placement on a trace, and both use the same search.
//
// Moves are made one at a time, and each goes to a place that is free at that moment. So a pod that finds no room may still take the place of another
// pod that does: two moves, that of the other pod first.
package moves

// Cluster is a set of pods on nodes. Nodes are numbered from 0. The search modifies it and undoes all changes.
type Cluster[P comparable] interface {
	// CountNodes returns the number of nodes.
	CountNodes() int
	// MovablePods returns the pods of a node that may leave it, the largest first.
	MovablePods(node int) []P
	// FitsOn reports whether a pod currently fits on a node.
	FitsOn(pod P, node int) bool
	// NodesWithRoom returns the nodes, except one, on which a pod currently fits and would be placed, the most likely first.
	NodesWithRoom(pod P, but int) []int
	// PlacePod places a pod on a node on which it fits. PlacePod and RemovePod return undo functions, which are called in reverse order. The exception is
	// a check of one node's pods, during which pods are taken and put back in other orders and Rooms is not called.
	PlacePod(pod P, node int) (undo func())
	// RemovePod removes a pod from its node.
	RemovePod(pod P, node int) (undo func())
	// FreeMilli returns the free part of a node's GPUs in thousandths of a GPU. It may be too high, but never too low.
	FreeMilli(node int) int64
	// PodMilli returns what a pod holds, in thousandths of a GPU.
	PodMilli(pod P) int64
	// PodClass is equal for pods that fit on the same nodes.
	PodClass(pod P) int
}

// Limits bound a search.
type Limits struct {
	// Moves is the most moves of a plan.
	Moves int
	// Tries bounds how often the search may check whether a pod fits in the place of another or try it in a free place, before and after it has found
	// a plan. It determines the duration of an unsuccessful search.
	Tries int
}

// Move takes a pod from one node to another.
type Move[P comparable] struct {
	Pod      P
	From, To int
}

// Plan is a set of moves that makes room for a pod.
type Plan[P comparable] struct {
	// Node is where the pod will fit.
	Node int
	// Moves must be made in this order, each after the one before has completed.
	Moves []Move[P]
	// Milli is the total size of the moving pods in thousandths of a GPU.
	Milli int64
}
