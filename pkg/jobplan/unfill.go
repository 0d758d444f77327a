package jobplan

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Unfilled returns the YAML that a job is to have without what its preset has filled in, for another preset to fill: the fields
// that are as the preset has them, before and still. Where the job had no preset the YAML stays as it is. The error is a
// [PresetError].
func Unfilled(before workload.Document, source string, texts map[string]string) (string, error) {
	name := before.Job.Resources.Preset
	if name == "" {
		return source, nil
	}
	text, known := texts[name]
	if !known {
		return "", &PresetError{name, phrase.Of("is no longer there, so nobody knows which fields it has filled: gpuctl edit shows them all")}
	}
	filled, err := filledFields(before.Source, ParsePreset(name, text))
	if err != nil {
		return "", err
	}
	return edit(source, func(root *yaml.Node) error {
		dropSame(root, filled)
		return nil
	})
}

// filledFields are the fields of a YAML that are as the preset has them.
func filledFields(source string, preset Preset) (map[string]*yaml.Node, error) {
	out := map[string]*yaml.Node{}
	_, err := edit(source, func(root *yaml.Node) error {
		for _, field := range dropSame(root, preset.values) {
			out[field] = preset.values[field]
		}
		return nil
	})
	return out, err
}

// dropSame takes the fields out of the resources of a YAML that are as the values have them, and returns which those are.
func dropSame(root *yaml.Node, values map[string]*yaml.Node) (dropped []string) {
	resources := child(root, "resources")
	own(resources)
	for i := len(resources.Content) - 2; i >= 0; i -= 2 {
		at := slices.IndexFunc(presetFields, func(field string) bool { return workload.Spells(resources.Content[i].Value, field) })
		if at >= 0 && isSame(values[presetFields[at]], resources.Content[i+1]) {
			resources.Content = slices.Delete(resources.Content, i, i+2)
			dropped = append(dropped, presetFields[at])
		}
	}
	return dropped
}

// OwnFields lists the fields of those a preset may fill that the YAML of a job has, and that are not set by the overrides.
func (o Overrides) OwnFields(source string) ([]string, error) {
	var out []string
	_, err := edit(source, func(root *yaml.Node) error {
		resources := child(root, "resources")
		own(resources)
		for _, field := range presetFields {
			if hasAny(resources, []string{field}) && !o.sets(field) {
				out = append(out, field)
			}
		}
		return nil
	})
	return out, err
}

// sets reports whether a field of resources is set.
func (o Overrides) sets(field string) bool {
	return slices.ContainsFunc(o.Set, func(set string) bool {
		path, _, _ := strings.Cut(set, "=")
		_, key, _ := strings.Cut(path, ".")
		return workload.Spells(key, field)
	})
}

// isSame reports whether two values are written alike, but for quotes and layout.
func isSame(a, b *yaml.Node) bool {
	if a == nil || a.Kind != b.Kind || a.Value != b.Value {
		return false
	}
	return slices.EqualFunc(a.Content, b.Content, isSame)
}
