package pool

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Add plans to bring the named nodes into a pool, with the description that the pool's nodes carry. Their GPU types stay
// as they are.
func Add(pool string, nodeNames []string, nodes []corev1.Node) Plan {
	joined := &workload.Pool{Name: pool}
	for i := range nodes {
		if nodes[i].Labels[names.LabelPool] == pool && joined.Description == "" {
			joined.Description = nodes[i].Annotations[names.AnnotationDescription]
		}
	}
	for _, name := range nodeNames {
		joined.Nodes = append(joined.Nodes, workload.PoolNode{Name: name})
	}
	return Join(joined, nodes)
}

// Taken is a label that a node has with another value than the wanted one.
type Taken struct{ Node, Key, Value, Becomes string }

// Hidden is a label set on a node where the scheduler reads another one instead, By.
type Hidden struct{ Node, Key, By string }

// String returns the message.
func (h Hidden) String() string { return h.Says().String() }

// Says is the message in every language.
func (h Hidden) Says() phrase.Text {
	return phrase.Textf("node %s has %s, which is read instead of %s", h.Node, h.By, h.Key)
}

// hidingLabel returns the GPU type label that is read before the one that is set, "" for none.
func hidingLabel(node *corev1.Node, key string, labels map[string]*string) string {
	at := slices.Index(names.GPUTypeLabels, key)
	if at < 0 || labels[key] == nil {
		return ""
	}
	for _, earlier := range names.GPUTypeLabels[:at] {
		value, changes := labels[earlier]
		if changes && value != nil && *value != "" || !changes && node.Labels[earlier] != "" {
			return earlier
		}
	}
	return ""
}

// Label plans to set labels of the named nodes, and to remove those whose value is nil. Labels with another value are recorded as taken, and set
// labels that another one hides, as hidden.
func Label(nodeNames []string, labels map[string]*string, nodes []corev1.Node) Plan {
	var plan Plan
	current := byName(nodes)
	for _, name := range nodeNames {
		node, ok := current[name]
		if !ok {
			plan.Missing = append(plan.Missing, name)
			continue
		}
		patch := patchOf(node)
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			setValue(patch.Labels, node.Labels, key, labels[key])
			plan.noteTaken(&patch, key)
			if hiding := hidingLabel(node, key, labels); hiding != "" {
				plan.Hidden = append(plan.Hidden, Hidden{Node: name, Key: key, By: hiding})
			}
		}
		plan.addPatch(patch)
	}
	return plan
}
