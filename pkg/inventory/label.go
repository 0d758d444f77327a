package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLabel is one label of one node.
type NodeLabel struct {
	Node  string `json:"node"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// NodeLabels reads the labels of all nodes, sorted by node and key, and the names of the nodes, of which some may have
// none: one request.
func (r *Reader) NodeLabels(ctx context.Context) (labels []NodeLabel, nodes []string, err error) {
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		nodes = append(nodes, list.Items[i].Name)
	}
	return buildNodeLabels(list.Items), nodes, nil
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
