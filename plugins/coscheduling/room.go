package coscheduling

import (
	"fmt"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// room is how many members of a gang have a place, and how many more the nodes have room for: free now, and on empty
// nodes. Both are upper bounds. They count what a node offers in whole members, and know nothing of cards, volumes or
// affinity.
type room struct{ placed, free, empty int }

// roomFor counts the room for members like pod.
func roomFor(pod *corev1.Pod, group types.NamespacedName, nodes []fwk.NodeInfo) (room, error) {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return room{}, fmt.Errorf("reading what the pod asks for: %w", err)
	}
	accepted, err := gpu.PodTypes(pod)
	if err != nil {
		return room{}, fmt.Errorf("reading which GPU types the pod accepts: %w", err)
	}
	pool, asks := gpu.PodPool(pod), countable(request, pod)
	var r room
	for _, node := range nodes {
		r.placed += membersOn(node, group)
		if node.Node() == nil || node.Node().Spec.Unschedulable || (pool != "" && gpu.PoolOf(node.Node()) != pool) || !accepted.Match(node.Node()) {
			continue
		}
		free, empty := math.MaxInt32, math.MaxInt32
		for name, amount := range asks {
			offered, taken := amountOf(node.GetAllocatable(), name), amountOf(node.GetRequested(), name)
			free = min(free, int(max(0, offered-taken)/amount))
			empty = min(empty, int(offered/amount))
		}
		r.free += free
		r.empty += empty
	}
	return r, nil
}

// amountOf returns the amount of a resource in the unit of countable.
func amountOf(of fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return of.GetMilliCPU()
	case corev1.ResourceMemory:
		return of.GetMemory()
	}
	return of.GetScalarResources()[name]
}

// countable returns how much a pod asks for of GPUs, CPU (in thousandths) and memory (in bytes), where it does.
func countable(request gpu.Request, pod *corev1.Pod) map[corev1.ResourceName]int64 {
	all := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := map[corev1.ResourceName]int64{
		names.ResourceGPU: request.Whole, names.ResourceSharedGPU: request.Shared,
		corev1.ResourceCPU: all.Cpu().MilliValue(), corev1.ResourceMemory: all.Memory().Value(),
	}
	maps.DeleteFunc(out, func(_ corev1.ResourceName, amount int64) bool { return amount <= 0 })
	return out
}

// membersOn counts the members of a group on a node.
func membersOn(node fwk.NodeInfo, group types.NamespacedName) int {
	count := 0
	for _, info := range node.GetPods() {
		if other, ok := groupOf(info.GetPod()); ok && other == group {
			count++
		}
	}
	return count
}

// alike reports whether pods ask for the same, so that the room for one is the room for the other.
func alike(a, b *corev1.Pod) bool {
	if len(a.Spec.Containers) != len(b.Spec.Containers) {
		return false
	}
	for i := range a.Spec.Containers {
		if !apiequality.Semantic.DeepEqual(a.Spec.Containers[i].Resources, b.Spec.Containers[i].Resources) {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		a.Annotations[names.AnnotationGPUTypes] == b.Annotations[names.AnnotationGPUTypes]
}

// verdict decides whether a gang of so many members may begin to take places, and tells why not. Eviction can help
// where the members would fit on empty nodes.
func (r room) verdict(members int) *fwk.Status {
	missing := members - r.placed
	switch {
	case missing <= r.free:
		return nil
	case missing <= r.empty:
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("gang: there is room for %d of %d members now, and all start at once", r.placed+r.free, members))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("gang: the nodes that suit it have room for %d of %d members, even when they are empty", r.placed+r.empty, members))
}
