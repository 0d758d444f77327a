package jobplan

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Refill describes the resources of a job that gets another preset.
type Refill struct {
	// Source is the job's YAML without the values that the previous preset filled, ready for the new one.
	Source string
	// Preset is the new preset, and Previous the previous one. Both are "" if the job keeps its preset, has none or drops it, or if the new preset
	// cannot be filled in, which filling it in reports.
	Preset, Previous string
	// Fills are the fields that the new preset fills, with their previous values, and Drops those that only the previous preset filled.
	Fills, Drops []Field
	// Keeps are the job's own fields, and Changed those that the previous preset filled and somebody has changed since.
	Keeps, Changed []string
	// Guessed says that it was not recorded which fields the previous preset filled: fields with the preset's values count as filled.
	Guessed bool
}

// Field is a field of resources with its value as text, "" for none.
type Field struct{ Name, Value string }

// Message describes the changes of the fields; it is empty if the preset stays.
func (r Refill) Message() phrase.Text {
	if r.Preset == "" {
		return nil
	}
	out := phrase.Textf("preset %s fills nothing", r.Preset)
	if len(r.Fills) > 0 {
		out = phrase.Textf("preset %s fills %s", r.Preset, fieldNames(r.Fills))
	}
	if slices.ContainsFunc(r.Fills, func(f Field) bool { return f.Value != "" }) {
		out = out.Addf("; was %s", previousValues(r.Fills))
	}
	if len(r.Drops) > 0 {
		out = out.Addf("; drops %s of preset %s, which was %s", fieldNames(r.Drops), r.Previous, previousValues(r.Drops))
	}
	if len(r.Keeps) > 0 {
		out = out.Addf("; the job keeps its own %s", strings.Join(r.Keeps, ", "))
	}
	if len(r.Changed) > 0 {
		out = out.Addf("; it keeps %s, changed since preset %s filled it", strings.Join(r.Changed, ", "), r.Previous)
	}
	if r.Guessed {
		out = out.Addf(" (nobody noted what preset %s had filled: it is what was as the preset has it)", r.Previous)
	}
	return out
}

func fieldNames(fields []Field) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return strings.Join(out, ", ")
}

func previousValues(fields []Field) phrase.Text {
	out := make([]phrase.Text, len(fields))
	for i, f := range fields {
		out[i] = phrase.Textf("nothing")
		if f.Value != "" {
			out[i] = phrase.Quote(f.Value)
		}
	}
	return phrase.Join(out, phrase.Textf(", "))
}

// ChangePreset computes the change of a job to another preset. source is its YAML with the new preset; the overrides, which are already applied to
// it, stay in any case. The error is a [PresetError] if it is unknown what the previous preset had filled, or an error of one of the overrides.
func ChangePreset(before workload.Document, source string, overrides Overrides, texts map[string]string) (Refill, error) {
	out := Refill{Source: source}
	preset := OtherPreset(before, source)
	if preset == "" || texts[preset] == "" { // filling it in reports this
		return out, nil
	}
	was, guessed, err := filledFields(before, texts)
	if err != nil {
		return out, err
	}
	dropped, changed, err := out.removeFilled(was)
	if err != nil {
		return out, err
	}
	if out.Source, err = overrides.Apply(before.Kind, out.Source); err != nil {
		return out, err
	}
	docs, diagnostics := workload.Parse("", []byte(out.Source))
	if diagnostics.HasErrors() {
		return out, nil
	}
	now, err := FillPreset(docs[0], texts)
	if err != nil {
		return out, nil //nolint:nilerr // filling it in reports the error
	}
	has, err := readPresetFields(out.Source)
	if err != nil {
		return out, err
	}
	out.Preset, out.Previous, out.Guessed = preset, before.Job.Resources.Preset, guessed
	out.classifyFields(dropped, changed, readValues(now.Filled), has, overrides)
	return out, nil
}

// classifyFields classifies each field by its change.
func (r *Refill) classifyFields(dropped, changed, filled, has presetValues, overrides Overrides) {
	for _, field := range presetFields {
		switch before := (Field{field, compactText(dropped[field])}); {
		case filled[field] != nil:
			r.Fills = append(r.Fills, before)
		case has[field] != nil && overrides.setsField(field):
		case has[field] != nil && changed[field] != nil:
			r.Changed = append(r.Changed, field)
		case has[field] != nil:
			r.Keeps = append(r.Keeps, field)
		case dropped[field] != nil:
			r.Drops = append(r.Drops, before)
		}
	}
}

// OtherPreset returns the new preset of a job in a YAML, "" if the preset has not changed or there was none before.
func OtherPreset(before workload.Document, source string) string {
	docs, _ := workload.Parse("", []byte(source))
	if len(docs) != 1 || docs[0].Job == nil {
		return ""
	}
	was, is := before.Job.Resources.Preset, docs[0].Job.Resources.Preset
	if was == "" || was == is {
		return ""
	}
	return is
}

// filledFields returns the fields that the preset of a job has filled: as recorded, or else those with the preset's values.
func filledFields(job workload.Document, texts map[string]string) (filled presetValues, guessed bool, err error) {
	if filled = readValues(job.Filled); filled != nil {
		return filled, false, nil
	}
	name := job.Job.Resources.Preset
	text, known := texts[name]
	if !known {
		return nil, true, &PresetError{name, phrase.Textf("is no longer there, so nobody knows which fields it has filled: gpuctl edit shows them all")}
	}
	is, err := readPresetFields(job.Source)
	if err != nil {
		return nil, true, err
	}
	filled = presetValues{}
	for field, value := range ParsePreset(name, text).values {
		if isSameValue(value, is[field]) {
			filled[field] = value
		}
	}
	return filled, true, nil
}

// removeFilled removes the fields from the source that still have their filled values. It returns them, and those that have changed.
func (r *Refill) removeFilled(filled presetValues) (dropped, changed presetValues, err error) {
	dropped, changed = presetValues{}, presetValues{}
	r.Source, err = editDocument(r.Source, func(root *yaml.Node) error {
		resources := ensureChild(root, "resources")
		resolveAlias(resources)
		dropEntries(resources, func(key string, value *yaml.Node) bool {
			field := presetField(key)
			switch {
			case filled[field] == nil:
				return false
			case isSameValue(filled[field], value):
				dropped[field] = value
				return true
			}
			changed[field] = value
			return false
		})
		return nil
	})
	return dropped, changed, err
}

// presetField returns the preset field that a key of resources spells, "" if none.
func presetField(key string) string {
	at := slices.IndexFunc(presetFields, func(field string) bool { return workload.IsSpelling(key, field) })
	if at < 0 {
		return ""
	}
	return presetFields[at]
}

// setsField reports whether the overrides set a field of a section, by its key.
func (o Overrides) setsField(field string) bool {
	return slices.ContainsFunc(o.Set, func(set string) bool {
		path, _, _ := strings.Cut(set, "=")
		_, key, _ := strings.Cut(path, ".")
		return workload.IsSpelling(key, field)
	})
}

// isSameValue reports whether two values are equal except for quotes and layout.
func isSameValue(a, b *yaml.Node) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Value != b.Value {
		return false
	}
	return slices.EqualFunc(a.Content, b.Content, isSameValue)
}

// compactText formats a value on one line, "" for none.
func compactText(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	words := make([]string, len(node.Content))
	for i, below := range node.Content {
		words[i] = compactText(below)
	}
	switch node.Kind {
	case yaml.SequenceNode:
		return strings.Join(words, ",")
	case yaml.MappingNode:
		var pairs []string
		for i := 0; i+1 < len(words); i += 2 {
			pairs = append(pairs, words[i]+":"+words[i+1])
		}
		return strings.Join(pairs, ",")
	}
	return node.Value
}
