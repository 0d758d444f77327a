package configcheck

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// classic says what the scores of a configuration come to that was written for the classic plugins. They had a band of 60 to 80 % and a
// matrix of types in their code, so that their files give weights and nothing else.
func classic(root *yaml.Node) []string {
	var all []string
	for i, profile := range itemsOf(root, "profiles") {
		for _, plugin := range itemsOf(profile, "pluginConfig") {
			args := fieldOf(plugin, "args")
			if valueOf(plugin, "name") != "GPUScore" || fieldOf(args, "weights") == nil || saysHow(args) {
				continue
			}
			all = append(all, fmt.Sprintf("profiles[%d]: GPUScore has weights alone, so utilization is what LeastFragmentation values, SpreadReplicas for inference and "+
				"FillHoles for notebooks, and no type comes near another. The classic plugin valued 60 to 80 %% of busy GPUs most, for every pod, and had types "+
				"that come near: write strategy: TargetBand, strategyByJobType: [] and compatibleTypes for that (docs/configuration.md, As the classic plugin scores)", i))
		}
	}
	return all
}

// saysHow reports whether arguments of GPUScore say more than weights: then they were written for ours.
func saysHow(args *yaml.Node) bool {
	return slices.ContainsFunc([]string{"strategy", "strategyByJobType", "targetBand", "compatibleTypes", "keepWholePerMille", "policyFile"},
		func(name string) bool { return fieldOf(args, name) != nil })
}

// fieldOf is a field of a mapping, nil where there is none.
func fieldOf(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// itemsOf are the items of a list in a mapping.
func itemsOf(mapping *yaml.Node, name string) []*yaml.Node {
	list := fieldOf(mapping, name)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return list.Content
}
