package inventory

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeLabel is one label of one node.
type NodeLabel struct {
	Node  string `json:"node"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func buildNodeLabels(nodes []corev1.Node) []NodeLabel {
	var out []NodeLabel
	for i := range nodes {
		for key, value := range nodes[i].Labels {
			out = append(out, NodeLabel{Node: nodes[i].Name, Key: key, Value: value})
		}
	}
	slices.SortFunc(out, func(a, b NodeLabel) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Key, b.Key)) })
	return out
}
