package nodestate

import corev1 "k8s.io/api/core/v1"

// ConditionOf returns a condition of a node, the node's own and no copy; nil where it has none of that kind. The agent reads it here,
// which links no client of all of Kubernetes, as Kubernetes' own function for this does.
func ConditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
