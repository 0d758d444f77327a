package fit

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// IsReady reports whether a node is up: its kubelet says so, and Kubernetes has not found it to be lost. The one is true
// before the other when a node goes, and when it comes back.
func IsReady(node *corev1.Node) bool {
	says := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return says && !slices.ContainsFunc(node.Spec.Taints, isOfNotReady)
}

// IsOpen reports whether a node takes new pods: it is ready, not cordoned, and no controller of ours keeps them off. Other
// taints are not looked at, as some tolerate them.
func IsOpen(node *corev1.Node) bool {
	return IsReady(node) && !node.Spec.Unschedulable && !nodestate.Closed(node)
}

func isOfNotReady(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
}

// ClosedTo tells what keeps pods with these tolerations from a node, whatever is free on it: it is cordoned, not ready or
// has a taint. A node that is not ready counts as if it had the taint, which Kubernetes writes a moment later. One that has not
// been ready yet, as its machine starts, is kept off.
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
	case isOfNotReady(taint) && !nodestate.Joins(node):
		return Obstacle{Kind: NotReady}, true
	}
	for _, state := range nodestate.Of(node, nil) {
		if state.Closes() {
			return Obstacle{Kind: KeptOff, What: string(state.Code)}, true
		}
	}
	return Obstacle{Kind: Tainted, What: taint.ToString()}, true
}

// Opened is a node as it would be if it took all pods.
func Opened(node *corev1.Node) *corev1.Node {
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
