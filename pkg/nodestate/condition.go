package nodestate

import corev1 "k8s.io/api/core/v1"

// ConditionOf returns a pointer to a condition of a node, nil if it has none of that type. The agent uses it because Kubernetes' own function links a
// client of all of Kubernetes.
func ConditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
