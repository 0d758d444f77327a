// Package moves finds the fewest moves of pods between nodes that make room for one more. It knows nodes and pods only
// by what a [Cluster] says of them: pkg/defrag has one of Kubernetes' objects, pkg/simulate/placement one of a trace,
// and both ask the same search.
//
// Moves are made one at a time, and each goes where room is before it is made. So a pod that finds no room may still
// take the place of another that does: two moves, that of the other first.
package moves

// Cluster is pods on nodes. Nodes are numbered from 0. The search changes it, and undoes all that it changed.
type Cluster[P comparable] interface {
	// Nodes is the number of nodes.
	Nodes() int
	// Movable returns the pods on a node that may leave it, those that hold most first.
	Movable(node int) []P
	// Fits reports whether a pod fits on a node as things are.
	Fits(pod P, node int) bool
	// Rooms returns nodes but one on which a pod fits as things are and would be put, the most likely first.
	Rooms(pod P, but int) []int
	// Put puts a pod on a node on which it fits. Both it and Take return what undoes that; it is called in the reverse
	// order, but while the pods of one node are taken away and put back to see who fits, and Rooms is not asked.
	Put(pod P, node int) (undo func())
	// Take takes a pod away from its node.
	Take(pod P, node int) (undo func())
	// Free is what is free of a node's GPUs, in thousandths of one. It may be more than that, and never less.
	Free(node int) int64
	// Milli is what a pod holds of GPUs, in thousandths of one.
	Milli(pod P) int64
	// Kind is equal for pods that fit on the same nodes.
	Kind(pod P) int
}

// Limits bound a search.
type Limits struct {
	// Moves is the most moves of a plan.
	Moves int
	// Tries is how many times the search may look whether a pod fits in the place of another or try it in a room, before
	// and after it knows some plan. It decides how long a search takes that finds nothing.
	Tries int
}

// Move takes a pod from one node to another.
type Move[P comparable] struct {
	Pod      P
	From, To int
}

// Plan is what makes room for a pod.
type Plan[P comparable] struct {
	// Node is where the pod will fit.
	Node int
	// Moves are to be made in this order, each when the one before is done.
	Moves []Move[P]
	// Milli is what the pods that move hold of GPUs, in thousandths of one.
	Milli int64
}
