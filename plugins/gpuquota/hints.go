package gpuquota

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
	quota "g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/hint"
)

// EventsToRegister names the events after which a quota may leave room for a pod, or a node be kept for others no longer:
//   - a pod with GPUs leaves that counts in a quota of the namespace, or that a node was kept for;
//   - a pod has come to a node of the pool, which may have been kept for it, or does not go where it was to: that helps no pod
//     whose namespace has all that it may;
//   - a node of the pool comes, or changes its type, or goes to another pool with the pods on it;
//   - the pod itself asks for something else.
//
// Of GPUQuotas that change [Plugin.activateWaiting] tells.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.afterPodChange},
	}, nil
}

func afterNodeChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pool := gpu.PodPool(pod)
	switch {
	case after == nil:
		return fwk.QueueSkip, nil
	case before == nil:
		return hint.QueueIf(gpu.PoolOf(after) == pool), nil
	case gpu.PoolOf(before) != pool && gpu.PoolOf(after) != pool:
		return fwk.QueueSkip, nil
	}
	return hint.QueueIf(gpu.PoolOf(before) != gpu.PoolOf(after) || gpu.TypeOf(before) != gpu.TypeOf(after)), nil
}

func (p *Plugin) afterPodChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case after == nil && before != nil:
		return hint.QueueIf(quota.WholeGPUs(before) > 0 && p.poolOf(before) == gpu.PodPool(pod) && p.leavesMore(before, pod)), nil
	case after == nil:
		return fwk.QueueSkip, nil
	case after.UID == pod.UID:
		return hint.QueueIf(before != nil && asksForOther(before, after)), nil
	}
	return hint.QueueIf(mayFreeBorrowedNode(before, after) && (p.poolOf(after) == gpu.PodPool(pod) || before != nil && p.poolOf(before) == gpu.PodPool(pod)) && p.quotas.RequestFor(pod).BlockingExcess() == nil), nil
}

// poolOf returns the pool in whose quotas a pod counts: that of its node or nominated node, as far as it is known; else its own.
func (p *Plugin) poolOf(pod *corev1.Pod) string {
	node, err := p.nodes.Get(cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName))
	if err != nil {
		return gpu.PodPool(pod)
	}
	return gpu.PoolOf(node)
}

// mayFreeBorrowedNode reports whether a pod has come to a node, so that others may borrow, or goes to another node than its nominated one.
func mayFreeBorrowedNode(before, after *corev1.Pod) bool {
	if before == nil {
		return quota.WholeGPUs(after) > 0
	}
	return before.Status.NominatedNodeName != "" && after.Status.NominatedNodeName != before.Status.NominatedNodeName
}

// leavesMore reports whether a departed pod counted in a quota of another one, or had a nominated node.
func (p *Plugin) leavesMore(gone, pod *corev1.Pod) bool {
	return gone.Status.NominatedNodeName != "" || gone.Spec.NodeName != "" && p.quotas.ShareQuota(gone, pod)
}

// asksForOther reports whether what a pod requests from quotas has changed.
func asksForOther(before, after *corev1.Pod) bool {
	first, _ := gpu.RequestOf(before)
	second, _ := gpu.RequestOf(after)
	types, _ := gpu.PodTypes(before)
	others, _ := gpu.PodTypes(after)
	return first != second || gpu.PodPool(before) != gpu.PodPool(after) || !slices.Equal(types.Accepted, others.Accepted)
}
