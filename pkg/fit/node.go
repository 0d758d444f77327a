// Package fit determines what keeps a pod from a node: taints, node affinity, GPUs, and the resources that Kubernetes counts. It finds all
// obstacles, where the scheduler stops at the first, and it decides about GPUs with the scheduler's allocator.
//
// It is for tools beside the scheduler, to explain or to plan. What a node alone cannot show is left out: volumes, affinity between pods,
// spreading, host ports and device claims.
package fit

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Node is a node with the pods on it. Pods may be removed and added, to evaluate alternatives.
type Node struct {
	Object *corev1.Node
	// Free is what the pods leave of each resource. Below zero is possible.
	Free corev1.ResourceList

	allocator *gpu.Allocator
	used      gpu.Used
	pods      map[types.NamespacedName]placed
}

// placed is a pod on a node, and its GPUs and MIG slices.
type placed struct {
	pod     *corev1.Pod
	asks    corev1.ResourceList
	holding gpu.Holding
	slices  *gpu.SliceHolding // nil for none, and on a node that names no slices
}

// NewNode returns a node with its pods. Pods with unknown GPUs count as holding unspecified ones. Nodes with the same links share the computed
// topology, which is megabytes for 16 GPUs, through topologies.
func NewNode(object *corev1.Node, pods []*corev1.Pod, topologies *gpu.Topologies) *Node {
	n := &Node{Object: object, Free: corev1.ResourceList{}, pods: map[types.NamespacedName]placed{}}
	maps.Copy(n.Free, object.Status.Allocatable)         // a node that has just registered has none
	n.allocator, _ = gpu.AllocatorOf(object, topologies) // the error names the ignored part, and the rest is valid
	reported := sync.OnceValue(func() []gpu.Slice { return gpu.SlicesOf(object) })
	for _, pod := range pods {
		holding, _ := n.allocator.HoldingOf(pod) // counted pessimistically when its annotation is wrong
		n.addPod(pod, holding, n.allocator.SlicesHeldBy(pod, reported))
	}
	return n
}

// CountPods returns the number of pods on the node.
func (n *Node) CountPods() int { return len(n.pods) }

// HoldingOf returns what a pod holds of the node's GPUs; nothing if it is not there.
func (n *Node) HoldingOf(pod *corev1.Pod) gpu.Holding { return n.pods[keyOf(pod)].holding }

// PlacePod adds a pod to the node, on the GPUs that the scheduler would choose. It returns false and changes nothing if there is an obstacle.
func (n *Node) PlacePod(r *Request) bool {
	if obstacles, _ := r.Obstacles(n); len(obstacles) > 0 {
		return false
	}
	holding, ok := n.chooseGPUs(&r.Demand)
	if !ok {
		return false
	}
	slices, ok := n.chooseSlices(&r.Demand)
	if !ok {
		return false
	}
	n.addPod(r.Pod, holding, slices)
	return true
}

func (n *Node) chooseGPUs(demand *gpu.Demand) (gpu.Holding, bool) {
	if !demand.NeedsGPUs() {
		return gpu.Holding{}, true
	}
	allocation, reason := n.allocator.Allocate(&n.used, demand)
	if !reason.IsZero() {
		return gpu.Holding{}, false
	}
	holding, err := n.allocator.Resolve(demand, n.allocator.BuildAssignment(demand, &allocation))
	return holding, err == nil
}

func (n *Node) chooseSlices(demand *gpu.Demand) (*gpu.SliceHolding, bool) {
	if !demand.NeedsSlices() || !n.namesSlices() {
		return nil, true
	}
	allocation, reason := n.allocator.AllocateSlices(n.slicesUsed(), demand)
	return allocation.Holding, reason.IsZero()
}

// RemovePod removes a pod, and returns a function that restores it with its GPUs. If the pod is not there, both do nothing.
func (n *Node) RemovePod(pod *corev1.Pod) (undo func()) {
	there, ok := n.pods[keyOf(pod)]
	if !ok || n.used.Remove(&there.holding) != nil {
		return func() {}
	}
	delete(n.pods, keyOf(pod))
	n.adjustFree(there.asks, 1)
	return func() { n.addPlaced(&there) }
}

func (n *Node) addPod(pod *corev1.Pod, holding gpu.Holding, slices *gpu.SliceHolding) {
	n.addPlaced(&placed{pod: pod, asks: amounts.Requests(pod), holding: holding, slices: slices})
}

func (n *Node) addPlaced(p *placed) {
	n.used.Add(&p.holding)
	n.pods[keyOf(p.pod)] = *p
	n.adjustFree(p.asks, -1)
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// adjustFree releases a pod's requests, or takes them with sign -1.
func (n *Node) adjustFree(asks corev1.ResourceList, sign int) {
	for name, quantity := range asks {
		left := n.Free[name]
		if sign < 0 {
			left.Sub(quantity)
		} else {
			left.Add(quantity)
		}
		n.Free[name] = left
	}
}
