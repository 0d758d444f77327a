package workload

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// MIGSlices are MIG slices of one size.
type MIGSlices struct {
	// Profile is NVIDIA's name of the size, such as 3g.20gb.
	Profile string
	Count   int64
}

// maxMIGSlices is more than any node has: eight GPUs of seven slices.
const maxMIGSlices = 64

var migPattern = regexp.MustCompile(`^[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(\.[a-z]{1,8}){0,3}$`)

// migProfile accepts a profile name as device plugins write it in resource names.
func migProfile(s string) (string, error) {
	if migPattern.MatchString(s) {
		return s, nil
	}
	var hint phrase.Text
	if like := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s, "mig-")), "+", "."); like != s && migPattern.MatchString(like) {
		hint = phrase.Textf(" (for example %q)", like)
	}
	return "", phrase.Errorf("is not a MIG profile: write its name, such as 3g.20gb%s", hint)
}

// migSlices is a value that accepts a profile, a section of PROFILE: count, a section of profile and count, and a list of profiles and such sections.
func migSlices(to *[]MIGSlices, least, most int64) value {
	v := namedSections(to, namedSpec[MIGSlices]{
		noun: "MIG profile", describe: "MIG profile, section of MIG profiles, or list", empty: true,
		table: func(m *MIGSlices) fields { return migFields(m, least, most) },
		name:  func(m *MIGSlices) string { return m.Profile },
	})
	v.wrap = migSchema
	several := v.decode
	v.decode = func(d *decoder, node *yaml.Node, path string) { several(d, migList(node), path) }
	return v
}

func migFields(m *MIGSlices, least, most int64) fields {
	m.Count = 1
	return fields{
		{name: "profile", required: true, value: scalarValue(&m.Profile, "MIG profile", migProfile), example: "3g.20gb",
			doc: "The size of the slice, as NVIDIA calls it. In a section of PROFILE: count it is the key."},
		{name: "count", value: wholeValue(&m.Count, "whole number", least, most), def: "1", example: "2",
			doc: "How many slices of that size."},
	}
}

// migList converts a value to the form of a list, or of a section of sections by name.
func migList(node *yaml.Node) *yaml.Node {
	switch {
	case node.Kind == yaml.ScalarNode, node.Kind == yaml.MappingNode && hasKey(node, "profile"):
		return &yaml.Node{Kind: yaml.SequenceNode, Line: node.Line, Column: node.Column, Content: []*yaml.Node{node}}
	case node.Kind != yaml.MappingNode:
		return node
	}
	out := *node
	out.Content = make([]*yaml.Node, len(node.Content))
	for i, child := range node.Content {
		out.Content[i] = child
		if i%2 == 1 && child.Kind == yaml.ScalarNode && !isNull(child) {
			key := &yaml.Node{Kind: yaml.ScalarNode, Value: "count", Line: child.Line, Column: child.Column}
			out.Content[i] = &yaml.Node{Kind: yaml.MappingNode, Line: child.Line, Column: child.Column, Content: []*yaml.Node{key, child}}
		}
	}
	return &out
}

// migSchema is the schema of slices; section is the schema of a section with profile and count.
func migSchema(section schema) schema {
	profile := scalarSchema("MIG profile")
	counts := schema{"type": "object", "additionalProperties": wholeSchema(0, maxQuotaGPUs)}
	return schema{"anyOf": []schema{profile, section, counts, listSchema(schema{"anyOf": []schema{profile, section}})}}
}
