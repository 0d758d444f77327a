package workload

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// schemaDraft is the version of JSON Schema with the best editor support.
const schemaDraft = "http://json-schema.org/draft-07/schema#"

// JSONSchema returns the JSON Schema (draft 7) of documents of the kinds, which editors use to complete and check YAML. It describes the form of a
// document, and which fields need and exclude each other. Rules that depend on values are left to [Parse].
func JSONSchema(kinds ...Kind) map[string]any {
	words := []string{}
	definitions, cases := schema{}, []any{}
	for _, kind := range kinds {
		ours := kindWords(kind)
		words = append(words, ours...)
		definition := sectionSchema(fieldTable(kind), kind)
		if relations := relationSchemas(kind); len(relations) > 0 {
			required, _ := definition["allOf"].([]any)
			definition["allOf"] = append(required, relations...)
		}
		definitions[string(kind)] = definition
		cases = append(cases, schema{
			"if":   schema{"properties": schema{"kind": schema{"enum": ours}}},
			"then": schema{"$ref": "#/definitions/" + string(kind)},
		})
	}
	return schema{
		"$schema":     schemaDraft,
		"title":       "gpuctl",
		"description": "A document of gpuctl: " + englishAlternatives(kinds) + ".",
		"type":        "object",
		"required":    []string{"kind"},
		"properties":  schema{"kind": schema{"enum": words, "description": "What the document describes."}},
		"allOf":       cases,
		"definitions": definitions,
	}
}

// sectionSchema returns the schema of a section from its table.
func sectionSchema(fs fields, kind Kind) schema {
	properties, spelt, required := schema{}, schema{}, []any{}
	out := schema{"type": "object", "additionalProperties": false}
	for _, f := range fs {
		switch {
		case !f.allowsKind(kind):
			continue
		case f.free:
			out["additionalProperties"] = f.jsonSchema(kind)
			continue
		}
		properties[f.name] = f.jsonSchema(kind)
		names := f.allSpellings()
		for _, name := range names[1:] {
			spelt["^"+name+"$"] = f.jsonSchema(kind)
		}
		if f.required {
			if i := slices.IndexFunc(fs, func(other field) bool { return other.name == f.instead }); i >= 0 {
				names = append(names, fs[i].allSpellings()...)
			}
			required = append(required, anyRequired(names))
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if len(spelt) > 0 {
		out["patternProperties"] = spelt // not properties: an editor then proposes one spelling, and accepts all
	}
	if len(required) > 0 {
		out["allOf"] = required
	}
	return out
}

// allSpellings returns every spelling of the key, ours first.
func (f field) allSpellings() []string {
	var out []string
	for _, name := range append([]string{f.name}, f.aliases...) {
		all := keySpellings(name)
		out = append(out, all[:]...)
	}
	slices.Sort(out[1:])
	out = slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == f.name })
	return append([]string{f.name}, out...)
}

func anyRequired(names []string) schema {
	if len(names) == 1 {
		return schema{"required": names}
	}
	var alternatives []schema
	for _, name := range names {
		alternatives = append(alternatives, schema{"required": []string{name}})
	}
	return schema{"anyOf": alternatives}
}

// jsonSchema returns the schema of a field's value, with its documentation.
func (f field) jsonSchema(kind Kind) schema {
	out := schema{}
	if len(f.value.fields) > 0 {
		out = sectionSchema(f.value.fields, kind)
	}
	if f.value.wrap != nil {
		out = f.value.wrap(out)
	}
	maps.Copy(out, f.value.schema)
	if f.name == "kind" {
		out["enum"] = kindWords(kind)
	}
	out["description"] = f.describeDefault()
	var example any
	if f.example != "" && yaml.Unmarshal([]byte(f.example), &example) == nil {
		out["examples"] = []any{example}
	}
	return out
}

// describeDefault returns the documentation of a field with its default.
func (f field) describeDefault() string { return f.docText(phrase.English) }

func (f field) docText(language phrase.Language) string {
	text := language.Translate(f.doc)
	if f.def == "" {
		return text
	}
	return text + phrase.Textf(" Default: %s.", language.Translate(f.def)).Localize(language)
}

// kindWords are the words for a kind.
func kindWords(kind Kind) []string {
	if kind == KindPool {
		return []string{string(kind), aliasOfPool}
	}
	return []string{string(kind)}
}

// textTypes lists the JSON types that YAML text without quotes may have.
var textTypes = []string{"string", "number", "boolean"}

// Patterns of text, by the words of its description.
var patterns = map[string]string{
	"time":                `^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)? ?[A-Za-z0-9+:/_-]+$`,
	"time, or now":        `^(now|\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)? ?[A-Za-z0-9+:/_-]+)$`,
	"duration":            `^(\d{1,5}d)?((\d{1,9}[hms])*)$`,
	"amount of CPU":       `^\d{1,15}(\.\d{1,9})?(m|k)?$`,
	"amount of memory":    `^(0|\d{1,15}(\.\d{1,9})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?)$`,
	"amount of storage":   `^\d{1,15}(\.\d{1,9})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`,
	"path":                `^/`,
	"pool":                `^[A-Za-z0-9]`,
	"GPU type":            `^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`,
	"GPU type or nothing": `^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$`,
	"MIG profile":         `^[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(\.[a-z]{1,8}){0,3}$`,
	"host name":           `^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`,
}

// scalarSchema returns the schema of a scalar, by the words of its description.
func scalarSchema(describe string) schema {
	out := schema{"type": textTypes}
	switch {
	case describe == "true or false":
		return schema{"enum": []any{true, false}}
	case patterns[describe] != "":
		out["pattern"] = patterns[describe]
	}
	return out
}

func wholeSchema(least, most int64) schema {
	return schema{"type": []string{"integer", "string"}, "pattern": `^(0|[1-9]\d*)$`, "minimum": least, "maximum": most}
}

func listSchema(entry schema) schema {
	return schema{"type": "array", "items": entry}
}

func oneOrListSchema(one schema) schema {
	return schema{"anyOf": []schema{one, listSchema(one)}}
}

// variablesSchema is the schema of environment variables, each of which is a section or NAME: value.
func variablesSchema(section schema) schema {
	pairs := schema{"type": "object", "additionalProperties": schema{"type": textTypes}}
	return schema{"anyOf": []schema{pairs, listSchema(schema{"if": schema{"required": []string{"name"}}, "then": section, "else": pairs})}}
}

// namedSchema is the schema of named things; section is the schema of one, including its name.
func namedSchema(section schema, empty bool) schema {
	entry, below := section, maps.Clone(section)
	delete(below, "allOf") // only the name is required
	properties, _ := section["properties"].(schema)
	rest := maps.Clone(properties)
	delete(rest, "name")
	below["properties"] = rest
	if empty {
		below["type"] = []string{"object", "null"}
		entry = schema{"anyOf": []schema{section, {"type": textTypes}}}
	}
	return schema{"anyOf": []schema{{"type": "object", "additionalProperties": below}, listSchema(entry)}}
}
