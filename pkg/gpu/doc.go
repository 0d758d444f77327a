// Package gpu is the pure core of the scheduler: what pods ask of GPUs, what nodes have, and which cards of
// a node serve a pod best. It has no Kubernetes client, no clock and no goroutine: values in, values out.
//
// From a pod come its [Request], a count, and its [Demand], container by container. From a node comes its
// [Inventory], the cards and how they are connected. An [Allocator] is an inventory made ready; it chooses
// an [Allocation] for a demand, given what is [Used], and names it as the [Assignment] that is written on
// the pod. Read back, an assignment resolves to a [Holding], the unit that Used adds up.
//
// MIG slices stand beside that: the [SlicedCard]s of an inventory, a [SliceAllocation], what is [SlicesUsed], a [SliceAssignment] and a
// [SliceHolding]. An assignment of cards and one of slices are a [Choice]. Pods and nodes without slices know nothing of all that.
package gpu
