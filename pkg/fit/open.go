package fit

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// IsReady reports whether a node is up: its kubelet reports it, and Kubernetes does not consider it lost. Either changes before the other when a
// node goes down, and when it comes back.
func IsReady(node *corev1.Node) bool {
	return condition.IsNodeTrue(node, corev1.NodeReady) && !slices.ContainsFunc(node.Spec.Taints, isOfNotReady)
}

// IsOpen reports whether a node accepts new pods: it is ready, not cordoned, and not closed by one of our controllers. Other taints are ignored,
// because some pods tolerate them.
func IsOpen(node *corev1.Node) bool {
	return IsReady(node) && !node.Spec.Unschedulable && !nodestate.IsClosed(node)
}

func isOfNotReady(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
}

// ClosedTo returns what keeps pods with these tolerations from a node, whatever is free on it: it is cordoned, not ready or has a taint. A node
// that is not ready counts as tainted, because Kubernetes adds the taint a moment later. A node that has not been ready yet, as its machine
// starts, is kept off.
func ClosedTo(node *corev1.Node, tolerations []corev1.Toleration) (Obstacle, bool) {
	var taints []corev1.Taint
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if !IsReady(node) {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	taint, found := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), append(taints, node.Spec.Taints...), tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	switch {
	case !found:
		return Obstacle{}, false
	case taint.Key == corev1.TaintNodeUnschedulable:
		return Obstacle{Kind: Cordoned}, true
	case isOfNotReady(taint) && !nodestate.IsJoining(node):
		return Obstacle{Kind: NotReady}, true
	}
	for _, state := range nodestate.StatesOf(node, nil) {
		if state.ClosesNode() {
			return Obstacle{Kind: KeptOff, What: string(state.Code)}, true
		}
	}
	return Obstacle{Kind: Tainted, What: taint.ToString()}, true
}

// OpenedNode returns a node as it would be if it accepted all pods.
func OpenedNode(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	out.Spec.Unschedulable, out.Spec.Taints = false, nil
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return out
}

// ByNode returns the pods that hold a place, by the name of their node.
func ByNode(pods []corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" && !gpu.HasEnded(&pods[i]) {
			out[node] = append(out[node], &pods[i])
		}
	}
	return out
}
