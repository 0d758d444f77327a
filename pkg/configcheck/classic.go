package configcheck

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// classicWarnings warns about a configuration that was written for the classic plugins. Their code contained a band of 60 to 80 % and a matrix of
// types, so that their files contain only weights.
func classicWarnings(root *yaml.Node) []string {
	var all []string
	for i, profile := range sequenceItems(root, "profiles") {
		for _, plugin := range sequenceItems(profile, "pluginConfig") {
			args := mappingField(plugin, "args")
			if mappingValue(plugin, "name") != "GPUScore" || mappingField(args, "weights") == nil || hasScoringOptions(args) {
				continue
			}
			all = append(all, fmt.Sprintf("profiles[%d]: GPUScore has weights alone, so utilization is what LeastFragmentation values, SpreadReplicas for inference and "+
				"FillHoles for notebooks, and no type comes near another. The classic plugin valued 60 to 80 %% of busy GPUs most, for every pod, and had types "+
				"that come near: write strategy: TargetBand, strategyByJobType: [] and compatibleTypes for that (docs/configuration.md, As the classic plugin scores)", i))
		}
	}
	return all
}

// hasScoringOptions reports whether arguments of GPUScore contain more than weights, which means that they were written for our plugin.
func hasScoringOptions(args *yaml.Node) bool {
	return slices.ContainsFunc([]string{"strategy", "strategyByJobType", "targetBand", "compatibleTypes", "keepWholePerMille", "policyFile"},
		func(name string) bool { return mappingField(args, name) != nil })
}

// mappingField returns a field of a mapping, nil if it is missing.
func mappingField(mapping *yaml.Node, name string) *yaml.Node {
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

// sequenceItems returns the items of a list in a mapping.
func sequenceItems(mapping *yaml.Node, name string) []*yaml.Node {
	list := mappingField(mapping, name)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return list.Content
}
