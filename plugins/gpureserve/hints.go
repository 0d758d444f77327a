package gpureserve

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/hint"
)

// EventsToRegister names the events after which a node may be kept no longer from a pod:
//   - a node of the pod's pool comes, or changes what a pod can have of it;
//   - a pod with cards leaves a node of the pool;
//   - the pod itself asks for something else.
//
// What makes room on other nodes, the plugins know that rejected those. kube-scheduler tells nobody of a pod that leaves
// the queue, the last one perhaps that would have taken a whole node: after [maxKeepTime] the periodic flush finds that.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodeEvents := fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation | fwk.UpdateNodeTaint
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeEvents}, QueueingHintFn: afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.afterPodChange},
	}, nil
}

func afterNodeChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil || gpu.PoolOf(after) != gpu.PodPool(pod) {
		return fwk.QueueSkip, nil
	}
	return hint.QueueIf(before == nil || offersOther(before, after)), nil
}

// offersOther reports whether a node changed in a way that affects its pool, its GPUs, its size or its availability.
func offersOther(before, after *corev1.Node) bool {
	return before.Spec.Unschedulable != after.Spec.Unschedulable ||
		before.Annotations[names.AnnotationInventory] != after.Annotations[names.AnnotationInventory] ||
		!reflect.DeepEqual(before.Labels, after.Labels) || !reflect.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!reflect.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}

func (p *Plugin) afterPodChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case before == nil:
		return fwk.QueueSkip, nil
	case after == nil:
		gone := observe.PodRequestOf(before)
		return hint.QueueIf(!gone.NeedsNoGPUs() && p.poolOf(before) == gpu.PodPool(pod)), nil
	}
	changed := before.Labels[names.LabelJobType] != after.Labels[names.LabelJobType] || observe.PodRequestOf(before) != observe.PodRequestOf(after)
	return hint.QueueIf(after.UID == pod.UID && changed), nil
}

// poolOf returns the pool of the node that a pod has left, as far as it is known; else its own.
func (p *Plugin) poolOf(gone *corev1.Pod) string {
	node, err := p.nodes.Get(gone.Spec.NodeName)
	if err != nil {
		return gpu.PodPool(gone)
	}
	return gpu.PoolOf(node)
}
