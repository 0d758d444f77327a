package gpuquota

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// WholeGPUs is how many whole GPUs a pod asks for. What cannot be read asks for none: no node takes it.
func WholeGPUs(pod *corev1.Pod) int64 {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return 0
	}
	return request.Whole
}

// PlaceOf is the place of a pod on a node. On one that is not known, nil, it is what the pod asks for.
func PlaceOf(pod *corev1.Pod, node *corev1.Node) Place {
	if node == nil {
		return Place{Pool: gpu.PodPool(pod)}
	}
	return Place{Pool: gpu.PoolOf(node), Type: gpu.TypeOf(node)}
}

// HoldingOf is what a pod holds on a node. It leaves alone, unless it is put in a unit.
func HoldingOf(pod *corev1.Pod, node *corev1.Node) Holding {
	return Holding{
		Pod: pod.UID, Namespace: pod.Namespace, Unit: string(pod.UID), At: PlaceOf(pod, node), GPUs: WholeGPUs(pod),
		Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time,
	}
}
