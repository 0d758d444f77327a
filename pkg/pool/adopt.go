package pool

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Adopt plans to add our labels for those that the first gpuctl wrote, and with remove to delete its labels. Without names it covers all nodes that
// have such labels. A label of ours with another value is recorded as taken.
func Adopt(nodeNames []string, remove bool, nodes []corev1.Node) Plan {
	var plan Plan
	current := byName(nodes)
	if len(nodeNames) == 0 {
		for name, node := range current {
			if len(earlierLabels(node)) > 0 {
				nodeNames = append(nodeNames, name)
			}
		}
		slices.Sort(nodeNames)
	}
	for _, name := range nodeNames {
		node, ok := current[name]
		if !ok {
			plan.Missing = append(plan.Missing, name)
			continue
		}
		plan.adoptNode(node, remove)
	}
	return plan
}

// adoptNode plans one node.
func (p *Plan) adoptNode(node *corev1.Node, remove bool) {
	patch := patchOf(node)
	for _, earlier := range earlierLabels(node) {
		value, ours := node.Labels[earlier], LabelKey(earlier)
		_, chosen := patch.Labels[ours]
		isDefault := ours == names.LabelPool && value == names.DefaultPool // which is to be in no pool
		if value != "" && !isDefault && !chosen {
			setValue(patch.Labels, node.Labels, ours, &value)
		}
		if change := patch.Labels[ours]; change.Before != nil && change.After != nil && !chosen {
			p.Taken = append(p.Taken, Taken{Node: node.Name, Key: ours, Value: *change.Before})
		}
		if remove {
			setValue(patch.Labels, node.Labels, earlier, nil)
		}
	}
	p.addPatch(patch)
}

// earlierLabels returns the labels of the first gpuctl that are ours under another name, sorted: of two spellings, the one with a hyphen comes first.
func earlierLabels(node *corev1.Node) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(node.Labels)), func(key string) bool {
		return !strings.HasPrefix(key, EarlierDomain) || LabelKey(key) == key
	})
}
