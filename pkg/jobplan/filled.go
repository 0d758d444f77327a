package jobplan

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// presetValues are fields of resources with their values.
type presetValues map[string]*yaml.Node

// encodeNote encodes fields on one line of YAML, as [names.AnnotationPresetFilled] stores them.
func (v presetValues) encodeNote() (string, error) {
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	for _, field := range presetFields {
		if v[field] == nil {
			continue
		}
		value := copyExpanded(v[field])
		setFlowStyle(value)
		mapping.Content = append(mapping.Content, literalNode(field), value)
	}
	out, err := yaml.Marshal(mapping)
	if err != nil {
		return "", phrase.Errorf("noting what the preset has filled: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// setFlowStyle sets the flow style, so that a value is written on one line.
func setFlowStyle(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		node.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	} else {
		node.Style = yaml.FlowStyle
	}
	for _, below := range node.Content {
		setFlowStyle(below)
	}
}

// readValues decodes the recorded fields; nil if there are none, or if the text is invalid because somebody else wrote it.
func readValues(note string) presetValues {
	var root yaml.Node
	if note == "" || safeyaml.Check([]byte(note), workload.UnfoldLimits) != nil || yaml.Unmarshal([]byte(note), &root) != nil {
		return nil
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	read := Preset{values: presetValues{}}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		if read.putField(root.Content[0].Content[i].Value, root.Content[0].Content[i+1]) != nil {
			return nil
		}
	}
	return read.values
}

// FillPresetAgain is [FillPreset] for the new YAML of an existing job. Fields that the preset filled before stay recorded while the job has that preset
// and the field; if they are unknown, they remain unknown.
func FillPresetAgain(before, after workload.Document, texts map[string]string) (workload.Document, error) {
	out, err := FillPreset(after, texts)
	if err != nil || before.Job.Resources.Preset != after.Job.Resources.Preset {
		return out, err
	}
	all := readValues(before.Filled)
	if all == nil {
		out.Filled = ""
		return out, nil
	}
	is, err := readPresetFields(after.Source)
	if err != nil {
		return out, err
	}
	for field := range all {
		if is[field] == nil {
			delete(all, field)
		}
	}
	for field, value := range readValues(out.Filled) {
		all[field] = value
	}
	out.Filled, err = all.encodeNote()
	return out, err
}

// readPresetFields returns the fields of a job's resources that a preset may fill.
func readPresetFields(source string) (presetValues, error) {
	out := presetValues{}
	_, err := editDocument(source, func(root *yaml.Node) error {
		resources := ensureChild(root, "resources")
		resolveAlias(resources)
		for i := 0; resources.Kind == yaml.MappingNode && i+1 < len(resources.Content); i += 2 {
			if field := presetField(resources.Content[i].Value); field != "" {
				out[field] = resources.Content[i+1]
			}
		}
		return nil
	})
	return out, err
}
