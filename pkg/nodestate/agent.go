package nodestate

import (
	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

// AgentClosure returns the condition by which no container gets GPUs on a node, whatever kubelet offers: its gpu-agent says that kubelet asks another
// device plugin or cannot pass GPUs on, or kubelet has rejected a pod since the agent was last heard of. nil if nothing is in the way, and where no
// agent is to run.
func AgentClosure(node *corev1.Node) *corev1.NodeCondition {
	ready := condition.OfNode(node, g8s.ConditionAgentReady)
	if ready == nil || ready.Status != corev1.ConditionFalse || ready.Reason == g8s.ReasonNoAgent {
		return nil
	}
	return ready
}

// IsAgentAway reports whether a node's gpu-agent does not serve kubelet: the node has the inventory that the agent wrote, and offers no GPUs. A node
// whose GPUs are all broken is the same.
func IsAgentAway(node *corev1.Node) bool {
	if ready := condition.OfNode(node, g8s.ConditionAgentReady); ready == nil || ready.Reason == g8s.ReasonNoAgent || node.Annotations[g8s.AnnotationInventory] == "" {
		return false
	}
	for name, quantity := range node.Status.Allocatable {
		if g8s.IsGPU(name) && quantity.Sign() > 0 {
			return false
		}
	}
	return true
}
