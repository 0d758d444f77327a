package jobplan

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Bounds of presets.
const (
	// MaxPresets is the maximum number of listed presets.
	MaxPresets = 500
	// MaxPresetSize is the maximum size of a preset in bytes.
	MaxPresetSize = 4 << 10
)

// presetFields are the fields of a job's resources that a preset may fill, in document order.
var presetFields = []string{"pool", "gpu", "gpu-type", "gpu-share", "mig", "cpu", "memory", "shm"}

// exclusiveFields lists, for a preset field, the fields that exclude it: a job that has one of them is not filled.
var exclusiveFields = map[string][]string{"gpu": {"mig"}, "gpu-share": {"mig"}, "mig": {"gpu", "gpu-share"}}

// Preset is a set of resources that administrators have prepared for jobs.
type Preset struct {
	Name        string
	Description string
	// Resources is what a job gets that has only the preset.
	Resources workload.Resources
	// Problem says why the preset cannot be used, "" if it can; ProblemText is the same in every language.
	Problem     string
	ProblemText phrase.Text
	values      presetValues
}

// ParsePreset parses a preset: YAML with a description and fields of resources. Errors are reported in Problem.
func ParsePreset(name, text string) Preset {
	out := Preset{Name: name, values: presetValues{}}
	if err := out.parseText(text); err != nil {
		out.Problem, out.ProblemText = err.Error(), phrase.FromError(err)
	}
	return out
}

func (p *Preset) parseText(text string) error {
	if len(text) > MaxPresetSize {
		return phrase.Errorf("it has %d bytes, and at most %d are read", len(text), MaxPresetSize)
	}
	if err := safeyaml.Check([]byte(text), workload.UnfoldLimits); err != nil {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return err
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return phrase.Errorf("it is no section with fields such as gpu: 1")
	}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		if err := p.putField(root.Content[0].Content[i].Value, root.Content[0].Content[i+1]); err != nil {
			return err
		}
	}
	if len(p.values) == 0 {
		return phrase.Errorf("it fills nothing: give at least one of %s", strings.Join(presetFields, ", "))
	}
	return p.checkFields()
}

func (p *Preset) putField(key string, value *yaml.Node) error {
	if key == "description" && value.Kind == yaml.ScalarNode {
		p.Description = value.Value
		return nil
	}
	field := presetField(key)
	switch {
	case field == "":
		return phrase.Errorf("unknown field %q%s: a preset has %s and description", key, spelling.DidYouMean(key, presetFields), strings.Join(presetFields, ", "))
	case p.values[field] != nil:
		return phrase.Errorf("field %q is there twice", key)
	}
	p.values[field] = copyExpanded(value)
	clearPosition(p.values[field])
	return nil
}

// LostFields lists the fields that a preset has and its replacement lacks, including the description.
func (p *Preset) LostFields(to Preset) []string {
	var out []string
	for _, field := range presetFields {
		if p.values[field] != nil && to.values[field] == nil {
			out = append(out, field)
		}
	}
	if p.Description != "" && to.Description == "" {
		out = append(out, "description")
	}
	return out
}

// checkFields validates the fields as those of a job.
func (p *Preset) checkFields() error {
	for _, field := range exclusiveFields["mig"] {
		if p.values["mig"] != nil && p.values[field] != nil {
			return phrase.Errorf("mig and %s exclude each other: keep one of them", field)
		}
	}
	const least = "kind: compute\njob: {name: preset}\nenvironment: {image: preset}\n"
	source, _, err := p.Fill(least)
	if err != nil {
		return err
	}
	docs, diagnostics := workload.Parse("", []byte(source))
	for _, d := range diagnostics {
		if d.Severity == workload.SeverityError {
			return phrase.Errorf("%s", d.Message)
		}
	}
	p.Resources = docs[0].Job.Resources
	return nil
}

// Fill returns the YAML document of a job with the preset's values in all fields of resources that the document lacks, and these fields.
func (p *Preset) Fill(source string) (string, presetValues, error) {
	filled := presetValues{}
	text, err := editDocument(source, func(root *yaml.Node) error {
		resources := ensureChild(root, "resources")
		resolveAlias(resources)
		for _, field := range presetFields {
			if value := p.values[field]; value != nil && !hasAny(resources, append([]string{field}, exclusiveFields[field]...)) {
				*ensureChild(resources, field) = *copyExpanded(value)
				filled[field] = value
			}
		}
		return nil
	})
	return text, filled, err
}

// hasAny reports whether a mapping has one of some keys, in any spelling.
func hasAny(mapping *yaml.Node, keys []string) bool {
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if slices.ContainsFunc(keys, func(key string) bool { return workload.IsSpelling(mapping.Content[i].Value, key) }) {
			return true
		}
	}
	return false
}

// PresetError says why a job's preset cannot be applied.
type PresetError struct {
	Preset string
	Text   phrase.Text
}

func (e *PresetError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *PresetError) Message() phrase.Text {
	return phrase.Textf("resources.preset: %q %s", e.Preset, e.Text)
}

// FillPreset returns a document with its preset filled in, and a record of the filled fields; texts are the presets by name. A document without a
// preset is not changed. The error is a [PresetError].
func FillPreset(doc workload.Document, texts map[string]string) (workload.Document, error) {
	if doc.Job == nil || doc.Job.Resources.Preset == "" {
		return doc, nil
	}
	name := doc.Job.Resources.Preset
	text, known := texts[name]
	if !known {
		return doc, &PresetError{name, phrase.Textf("is no preset%s: see gpuctl get presets", spelling.DidYouMean(name, slices.Sorted(maps.Keys(texts))))}
	}
	preset := ParsePreset(name, text)
	if preset.Problem != "" {
		return doc, &PresetError{name, phrase.Textf("cannot be used: %s. Tell the administrators", preset.Problem)}
	}
	source, filled, err := preset.Fill(doc.Source)
	if err != nil {
		return doc, &PresetError{name, phrase.Textf("cannot be filled in: %s", err)}
	}
	out, wrong := reparseFilled(doc, source)
	if wrong != nil {
		return doc, &PresetError{name, phrase.Textf("does not go with the job: %s", wrong.Text)}
	}
	out.Filled, err = filled.encodeNote()
	return out, err
}

// reparseFilled returns a document with another text, in which something was filled in. Other properties are kept. The second result is the first
// error in the text, nil if there is none.
func reparseFilled(doc workload.Document, source string) (workload.Document, *workload.Diagnostic) {
	docs, diagnostics := workload.ParseFilled([]byte(source))
	if at := slices.IndexFunc(diagnostics, func(d workload.Diagnostic) bool { return d.Severity == workload.SeverityError }); at >= 0 {
		return doc, &diagnostics[at]
	}
	out := docs[0]
	out.Line, out.Upload, out.Filled, out.PoolShare = doc.Line, doc.Upload, doc.Filled, doc.PoolShare
	return out, nil
}
