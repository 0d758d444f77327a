package workload

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/spelling"
)

// field describes one key of the YAML: its name, its value and its meaning. The tables of fields are the only description; see [Fields] for what
// documentation reads from them.
type field struct {
	// name is the key in kebab-case; camelCase and snake_case are accepted as well.
	name string
	// aliases are other accepted names of the key, also in kebab-case.
	aliases []string
	// value decodes the value of the key.
	value value
	// only lists the kinds that have the field; empty means all kinds that have its section.
	only []Kind
	// free matches every key that is no other field's name, with a section below it. It must be the last field of its table.
	free bool
	// required makes the absence of the field an error, unless the field named by instead is present.
	required bool
	instead  string
	// needs lists fields without which this field has no effect, and excludes those that contradict it. A name is that of a field in the same
	// section, or, if it contains or begins with a dot, a path from the top of the document.
	needs, excludes []string
	// def describes the default.
	def string
	// example is a value in YAML. For a section or a list of sections it is the minimum that is accepted, if that is more than its required fields.
	example string
	// typical marks fields that nearly every author writes although they are not required.
	typical bool
	// doc describes the field in one or two sentences.
	doc string
}

// value is the destination of a field: it decodes a node into the variable it was created for, as flag.Value does.
type value struct {
	// describe names the accepted values, such as "whole number, 0 to 8".
	describe string
	// fields are those of a section, or of each entry of a list of sections.
	fields fields
	// list marks a list of sections.
	list bool
	// words are the only accepted values, if there is such a choice.
	words []string
	// schema is the JSON Schema of a value without fields.
	schema schema
	// wrap builds the JSON Schema of the value from that of its fields; nil keeps the latter.
	wrap func(section schema) schema
	// decode stores node, or reports why it cannot. The node is never an alias and never null.
	decode func(d *decoder, node *yaml.Node, path string)
}

// fields is the table of a section.
type fields []field

// findField returns the field that the key spells.
func (fs fields) findField(key string) (field, bool) {
	for _, f := range fs {
		if IsSpelling(key, f.name) || slices.ContainsFunc(f.aliases, func(a string) bool { return IsSpelling(key, a) }) {
			return f, true
		}
	}
	return field{}, false
}

// freeField is a field whose key the author chooses; name indicates that, such as "<name>".
func freeField(name, example string, v value, doc string) field {
	return field{name: name, free: true, example: example, value: v, def: "none", doc: doc}
}

// fieldNames lists the fields that documents of the kind may have.
func (fs fields) fieldNames(kind Kind) []string {
	var out []string
	for _, f := range fs {
		if f.allowsKind(kind) && !f.free {
			out = append(out, f.name)
		}
	}
	return out
}

// matchFreeField returns the free field for a key, unless the key looks like a misspelt field name.
func (fs fields) matchFreeField(key string, val *yaml.Node, kind Kind) (field, bool) {
	last := fs[len(fs)-1]
	if !last.free || val.Kind != yaml.MappingNode || spelling.Nearest(key, fs.fieldNames(kind)) != "" {
		return field{}, false
	}
	last.name = key
	return last, true
}

func (f field) allowsKind(kind Kind) bool {
	return len(f.only) == 0 || slices.Contains(f.only, kind)
}

// Field describes a key of the YAML for documentation.
type Field struct {
	// Path is the key with its sections, such as "resources.gpu-type" or "storage.workdirs[].path".
	Path string
	// Type describes the accepted values.
	Type string
	// Default describes the default.
	Default string
	// Example is a value in YAML; empty for sections.
	Example  string
	Doc      string
	Required bool
	// Section marks a field that only contains other fields, which follow it.
	Section bool
}

// Fields lists every field of a kind, each section before its fields.
func Fields(kind Kind) []Field {
	var out []Field
	walkFields(fieldTable(kind), kind, "", func(path string, f field) {
		out = append(out, Field{
			Path: path, Type: f.value.describe, Default: f.def, Example: f.example, Doc: f.doc,
			Required: f.required, Section: len(f.value.fields) > 0,
		})
	})
	return out
}

// fieldTable returns the table of a kind, bound to a job or pool that is discarded.
func fieldTable(kind Kind) fields {
	switch kind {
	case KindPool:
		return poolFields(&Pool{})
	case KindQuota:
		return quotaFields(&Quota{}, &NamespaceQuota{})
	case KindReservation:
		return reservationFields(&Reservation{})
	default:
		return jobFields(newJob(kind))
	}
}

// walkFields visits every field of a kind with its path, each section before its fields.
func walkFields(fs fields, kind Kind, prefix string, visit func(path string, f field)) {
	for _, f := range fs {
		if !f.allowsKind(kind) {
			continue
		}
		path := prefix + f.name
		visit(path, f)
		if f.value.list {
			path += "[]"
		}
		walkFields(f.value.fields, kind, path+".", visit)
	}
}

// sectionValue is a value that contains other fields.
func sectionValue(fs fields) value {
	return value{
		describe: "section",
		fields:   fs,
		decode:   func(d *decoder, node *yaml.Node, path string) { d.decodeSection(node, path, fs) },
	}
}

// optionalSection is an optional section: the pointer stays nil if the section is absent.
func optionalSection[T any](to **T, table func(*T) fields) value {
	return value{
		describe: "section",
		fields:   table(new(T)),
		decode: func(d *decoder, node *yaml.Node, path string) {
			*to = new(T)
			d.decodeSection(node, path, table(*to))
		},
	}
}

// sectionList is a list whose entries all have the fields that table returns for a new T.
func sectionList[T any](to *[]T, table func(*T) fields) value {
	return value{
		describe: "list",
		fields:   table(new(T)),
		list:     true,
		wrap:     listSchema,
		decode: func(d *decoder, node *yaml.Node, path string) {
			*to = make([]T, len(node.Content))
			d.decodeList(node, path, func(i int, entry *yaml.Node, path string) {
				d.decodeSection(entry, path, table(&(*to)[i]))
			})
		},
	}
}

// joinPath appends a key to the path of its section.
func joinPath(path, key string) string {
	return strings.TrimPrefix(path+"."+key, ".")
}
