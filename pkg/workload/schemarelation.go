package workload

import (
	"slices"
	"strings"
)

// relationSchemas returns the parts of a kind's JSON Schema for fields that need or exclude each other. Fields in lists and under chosen names have
// no such parts, because the schema cannot express their position.
func relationSchemas(kind Kind) []any {
	table := fieldTable(kind)
	var out []any
	walkFields(table, kind, "", func(path string, f field) {
		section, _ := splitPath(path)
		if strings.ContainsAny(path, "[<") {
			return
		}
		for _, name := range f.needs {
			out = append(out, schema{"if": presenceSchema(table, path, false), "then": presenceSchema(table, relativePath(section, name), true)})
		}
		for _, name := range f.excludes {
			out = append(out, schema{"if": presenceSchema(table, path, false), "then": schema{"not": presenceSchema(table, relativePath(section, name), false)}})
		}
	})
	return out
}

// presenceSchema is the schema of documents that have the field at a path, in any spelling. If counts is set, the field must not be 0.
func presenceSchema(fs fields, path string, counts bool) schema {
	name, rest, deeper := strings.Cut(path, ".")
	i := slices.IndexFunc(fs, func(f field) bool { return f.name == name })
	if i < 0 {
		return schema{"required": []string{name}}
	}
	var ways []schema
	for _, spelling := range fs[i].allSpellings() {
		way := schema{"required": []string{spelling}}
		switch {
		case deeper:
			way["properties"] = schema{spelling: presenceSchema(fs[i].value.fields, rest, counts)}
		case counts:
			way["properties"] = schema{spelling: schema{"not": schema{"enum": []any{0, "0"}}}}
		}
		ways = append(ways, way)
	}
	if len(ways) == 1 {
		return ways[0]
	}
	return schema{"anyOf": ways}
}
