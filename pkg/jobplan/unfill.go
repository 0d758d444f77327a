package jobplan

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Refill is what becomes of the resources of a job that gets another preset.
type Refill struct {
	// Source is the job's YAML without what the preset before had filled, for the new one to fill.
	Source string
	// Preset is the new one, and Was the one before; both are "" where the job keeps its preset, has none or leaves it, or
	// where the new one cannot be filled in, which filling it in says.
	Preset, Was string
	// Fills are the fields that the new preset fills, with what each was before, and Drops those of the preset before that it
	// does not fill.
	Fills, Drops []Field
	// Keeps are the job's own, and Changed those that the preset before had filled and that somebody has changed since.
	Keeps, Changed []string
	// Guessed says that nobody noted what the preset before had filled: what was as it has it counts.
	Guessed bool
}

// Field is a field of resources with a value as people read it, "" for none.
type Field struct{ Name, Value string }

// Says tells what happens to the fields; nothing where the preset stays.
func (r Refill) Says() phrase.Text {
	if r.Preset == "" {
		return nil
	}
	out := phrase.Of("preset %s fills nothing", r.Preset)
	if len(r.Fills) > 0 {
		out = phrase.Of("preset %s fills %s", r.Preset, namesOf(r.Fills))
	}
	if slices.ContainsFunc(r.Fills, func(f Field) bool { return f.Value != "" }) {
		out = out.And("; was %s", valuesOf(r.Fills))
	}
	if len(r.Drops) > 0 {
		out = out.And("; drops %s of preset %s, which was %s", namesOf(r.Drops), r.Was, valuesOf(r.Drops))
	}
	if len(r.Keeps) > 0 {
		out = out.And("; the job keeps its own %s", strings.Join(r.Keeps, ", "))
	}
	if len(r.Changed) > 0 {
		out = out.And("; it keeps %s, changed since preset %s filled it", strings.Join(r.Changed, ", "), r.Was)
	}
	if r.Guessed {
		out = out.And(" (nobody noted what preset %s had filled: it is what was as the preset has it)", r.Was)
	}
	return out
}

func namesOf(fields []Field) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return strings.Join(out, ", ")
}

func valuesOf(fields []Field) phrase.Text {
	out := make([]phrase.Text, len(fields))
	for i, f := range fields {
		out[i] = phrase.Of("nothing")
		if f.Value != "" {
			out[i] = phrase.Quote(f.Value)
		}
	}
	return phrase.Join(out, phrase.Of(", "))
}

// Refilled returns what becomes of a job that gets another preset: source is its YAML with that in it, and the overrides, which
// are applied to it already, stay in any case. The error is a [PresetError] where nobody can know what the preset before had
// filled, or one of the overrides.
func Refilled(before workload.Document, source string, overrides Overrides, texts map[string]string) (Refill, error) {
	out := Refill{Source: source}
	preset := OtherPreset(before, source)
	if preset == "" || texts[preset] == "" { // which filling it in says
		return out, nil
	}
	was, guessed, err := whatFilled(before, texts)
	if err != nil {
		return out, err
	}
	dropped, changed, err := out.unfill(was)
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
	now, err := Filled(docs[0], texts)
	if err != nil {
		return out, nil //nolint:nilerr // filling it in says so
	}
	has, err := fieldsOf(out.Source)
	if err != nil {
		return out, err
	}
	out.Preset, out.Was, out.Guessed = preset, before.Job.Resources.Preset, guessed
	out.sort(dropped, changed, readValues(now.Filled), has, overrides)
	return out, nil
}

// sort tells of each field what becomes of it.
func (r *Refill) sort(dropped, changed, filled, has values, overrides Overrides) {
	for _, field := range presetFields {
		switch before := (Field{field, inWords(dropped[field])}); {
		case filled[field] != nil:
			r.Fills = append(r.Fills, before)
		case has[field] != nil && overrides.sets(field):
		case has[field] != nil && changed[field] != nil:
			r.Changed = append(r.Changed, field)
		case has[field] != nil:
			r.Keeps = append(r.Keeps, field)
		case dropped[field] != nil:
			r.Drops = append(r.Drops, before)
		}
	}
}

// OtherPreset is the preset that a YAML has for a job which had another one, "" where it has not.
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

// whatFilled are the fields that the preset of a job has filled: as it was noted, and else those that are as the preset has
// them.
func whatFilled(job workload.Document, texts map[string]string) (filled values, guessed bool, err error) {
	if filled = readValues(job.Filled); filled != nil {
		return filled, false, nil
	}
	name := job.Job.Resources.Preset
	text, known := texts[name]
	if !known {
		return nil, true, &PresetError{name, phrase.Of("is no longer there, so nobody knows which fields it has filled: gpuctl edit shows them all")}
	}
	is, err := fieldsOf(job.Source)
	if err != nil {
		return nil, true, err
	}
	filled = values{}
	for field, value := range ParsePreset(name, text).values {
		if isSame(value, is[field]) {
			filled[field] = value
		}
	}
	return filled, true, nil
}

// unfill takes the fields out of the source that are as they were filled, and returns them, and those that are not so any more.
func (r *Refill) unfill(filled values) (dropped, changed values, err error) {
	dropped, changed = values{}, values{}
	r.Source, err = edit(r.Source, func(root *yaml.Node) error {
		resources := child(root, "resources")
		own(resources)
		drop(resources, func(key string, value *yaml.Node) bool {
			field := presetField(key)
			switch {
			case filled[field] == nil:
				return false
			case isSame(filled[field], value):
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

// presetField is the field that a preset may fill which a key of resources is, in any of its spellings; "" for another.
func presetField(key string) string {
	at := slices.IndexFunc(presetFields, func(field string) bool { return workload.Spells(key, field) })
	if at < 0 {
		return ""
	}
	return presetFields[at]
}

// sets reports whether a field of a section is set, by its key.
func (o Overrides) sets(field string) bool {
	return slices.ContainsFunc(o.Set, func(set string) bool {
		path, _, _ := strings.Cut(set, "=")
		_, key, _ := strings.Cut(path, ".")
		return workload.Spells(key, field)
	})
}

// isSame reports whether two values are written alike, but for quotes and layout.
func isSame(a, b *yaml.Node) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Value != b.Value {
		return false
	}
	return slices.EqualFunc(a.Content, b.Content, isSame)
}

// inWords is a value in one line, "" for none.
func inWords(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	words := make([]string, len(node.Content))
	for i, below := range node.Content {
		words[i] = inWords(below)
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
