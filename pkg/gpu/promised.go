package gpu

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// maxPromised is the most that one pod adds to a sum, so that the sum does not overflow.
const maxPromised = 1 << 40

// PlacedByOther reports whether another scheduler placed a pod with GPUs on a node beside our pods. Nodes of a pool that has that scheduler's name
// belong to it. Static pods are not placed by any scheduler.
func PlacedByOther(node *corev1.Node, pod *corev1.Pod) bool {
	by := pod.Spec.SchedulerName
	if names.IsOurScheduler(by) || by == PoolOf(node) || pod.Spec.NodeName == "" || HasEnded(pod) {
		return false
	}
	if _, isOfFile := pod.Annotations[corev1.MirrorPodAnnotationKey]; isOfFile {
		return false
	}
	request, err := RequestOf(pod)
	return err == nil && !request.IsZero()
}

// Promised is the total request of the pods on a node for one kind of its GPUs, and the number that the node has.
type Promised struct{ Asked, Has int64 }

// Excess is how far the requests exceed the number of GPUs.
func (p Promised) Excess() int64 { return max(0, p.Asked-p.Has) }

// MostPromisedOn returns the most overcommitted kind: whole GPUs, slots on shared ones, or MIG slices. The node's capacity counts as what it has, since
// pods keep their claim to GPUs that failed later. A kind that the node does not have is ignored, as its device plugin may be down.
func MostPromisedOn(node *corev1.Node, pods []*corev1.Pod) Promised {
	var whole, shared, slices Promised
	for name, quantity := range node.Status.Capacity {
		switch count := min(max(0, quantity.Value()), maxPromised); {
		case name == names.ResourceGPU:
			whole.Has = count
		case name == names.ResourceSharedGPU:
			shared.Has = count
		case strings.HasPrefix(string(name), names.ResourceMIGPrefix):
			slices.Has += count
		}
	}
	for _, pod := range pods {
		request, err := RequestOf(pod)
		if err != nil || HasEnded(pod) {
			continue
		}
		whole.Asked += min(request.Whole, maxPromised)
		shared.Asked += min(request.Shared, maxPromised)
		slices.Asked += min(request.MIG, maxPromised)
	}
	out := whole
	for _, kind := range []Promised{shared, slices} {
		if kind.Has > 0 && (out.Has == 0 || kind.Excess() > out.Excess()) {
			out = kind
		}
	}
	if out.Has == 0 {
		return Promised{}
	}
	return out
}
