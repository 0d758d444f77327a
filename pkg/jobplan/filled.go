package jobplan

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// values are fields of resources with their values.
type values map[string]*yaml.Node

// write encodes fields on one line of YAML, as [names.AnnotationPresetFilled] stores them.
func (v values) write() (string, error) {
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	for _, field := range presetFields {
		if v[field] == nil {
			continue
		}
		value := copyOf(v[field])
		flow(value)
		mapping.Content = append(mapping.Content, literal(field), value)
	}
	out, err := yaml.Marshal(mapping)
	if err != nil {
		return "", phrase.Errorf("noting what the preset has filled: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// flow sets the flow style, so that a value is written on one line.
func flow(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		node.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	} else {
		node.Style = yaml.FlowStyle
	}
	for _, below := range node.Content {
		flow(below)
	}
}

// readValues decodes the recorded fields; nil if there are none, or if the text is invalid because somebody else wrote it.
func readValues(note string) values {
	var root yaml.Node
	if note == "" || safeyaml.Check([]byte(note), workload.Unfolded) != nil || yaml.Unmarshal([]byte(note), &root) != nil {
		return nil
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	read := Preset{values: values{}}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		if read.put(root.Content[0].Content[i].Value, root.Content[0].Content[i+1]) != nil {
			return nil
		}
	}
	return read.values
}

// FilledAgain is [FillPreset] for the new YAML of an existing job. Fields that the preset filled before stay recorded while the job has that preset
// and the field; if they are unknown, they remain unknown.
func FilledAgain(before, after workload.Document, texts map[string]string) (workload.Document, error) {
	out, err := Filled(after, texts)
	if err != nil || before.Job.Resources.Preset != after.Job.Resources.Preset {
		return out, err
	}
	all := readValues(before.Filled)
	if all == nil {
		out.Filled = ""
		return out, nil
	}
	is, err := fieldsOf(after.Source)
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
	out.Filled, err = all.write()
	return out, err
}

// fieldsOf returns the fields of a job's resources that a preset may fill.
func fieldsOf(source string) (values, error) {
	out := values{}
	_, err := edit(source, func(root *yaml.Node) error {
		resources := child(root, "resources")
		own(resources)
		for i := 0; resources.Kind == yaml.MappingNode && i+1 < len(resources.Content); i += 2 {
			if field := presetField(resources.Content[i].Value); field != "" {
				out[field] = resources.Content[i+1]
			}
		}
		return nil
	})
	return out, err
}
