package gpu

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// mostPromised is what one pod counts for at most in a sum, which then does not wrap around.
const mostPromised = 1 << 40

// PlacedByOther reports whether a pod with GPUs holds a place on a node that another scheduler gave it, beside ours: the nodes of a
// pool that has that scheduler's name are its own, and the files of a node are nobody's to place.
func PlacedByOther(node *corev1.Node, pod *corev1.Pod) bool {
	by := pod.Spec.SchedulerName
	if by == names.SchedulerName || by == PoolOf(node) || pod.Spec.NodeName == "" || HasEnded(pod) {
		return false
	}
	if _, isOfFile := pod.Annotations[corev1.MirrorPodAnnotationKey]; isOfFile {
		return false
	}
	request, err := RequestOf(pod)
	return err == nil && !request.IsZero()
}

// Promised is what the pods that hold places on a node ask of one kind of its GPUs, and how many it has.
type Promised struct{ Asked, Has int64 }

// Excess is how many more were promised than there are.
func (p Promised) Excess() int64 { return max(0, p.Asked-p.Has) }

// PromisedOn returns that of the kind of which most is asked beyond what there is: whole GPUs, slots on shared ones, or MIG slices.
// What a node has is its capacity: GPUs that have failed since are still those that its pods were promised. A kind of which a node
// has none counts for nothing, as its device plugin may be down.
func PromisedOn(node *corev1.Node, pods []*corev1.Pod) Promised {
	var whole, shared, slices Promised
	for name, quantity := range node.Status.Capacity {
		switch count := min(max(0, quantity.Value()), mostPromised); {
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
		whole.Asked += min(request.Whole, mostPromised)
		shared.Asked += min(request.Shared, mostPromised)
		slices.Asked += min(request.MIG, mostPromised)
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
