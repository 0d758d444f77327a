// Package gpu is the pure core of the scheduler: what pods request of GPUs, what nodes have, and which GPUs of a node serve a pod best. It has no
// Kubernetes client, no clock and no goroutine: values in, values out.
//
// A pod yields its [Request], a count, and its [Demand], container by container. A node yields its [Inventory], the GPUs and how they are connected.
// An [Allocator] is a prepared inventory. It chooses an [Allocation] for a demand, given what is [Used], and names it as the [Assignment] that is
// written on the pod. Read back, an assignment resolves to a [Holding], the unit that Used adds up.
//
// MIG slices have types of their own: the [SlicedGPU]s of an inventory, a [SliceAllocation], what is [SlicesUsed], a [SliceAssignment] and a
// [SliceHolding]. An assignment of GPUs and one of slices form a [Choice]. Pods and nodes without slices need none of that.
package gpu
