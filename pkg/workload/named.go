package workload

import (
	"go.yaml.in/yaml/v3"
)

// namedSpec describes the notation of a list of named things.
type namedSpec[T any] struct {
	// noun is the singular, such as node, and describe covers all forms of the list.
	noun, describe string
	// table returns the table of one thing. Its first field is the name.
	table func(*T) fields
	// name returns the name of a thing; "" if it could not be decoded.
	name func(*T) string
	// empty says whether a thing may consist of its name alone.
	empty bool
	// check validates relations between the fields of one thing; may be nil.
	check func(d *decoder, at *yaml.Node, path string)
}

// namedSections is a value that accepts a section {name: {...}}, and a list of names or of sections with a name.
func namedSections[T any](to *[]T, n namedSpec[T]) value {
	return value{
		describe: n.describe,
		fields:   n.table(new(T)),
		list:     true,
		wrap:     func(section schema) schema { return namedSchema(section, n.empty) },
		decode: func(d *decoder, node *yaml.Node, path string) {
			l := namedDecoder[T]{decoder: d, namedSpec: n, to: to, seen: map[string]*yaml.Node{}}
			if node.Kind == yaml.MappingNode {
				l.decodePairs(node, path)
				return
			}
			d.decodeList(node, path, l.decodeListEntry)
		},
	}
}

// namedDecoder collects named things. A name may appear only once.
type namedDecoder[T any] struct {
	*decoder
	namedSpec[T]
	to   *[]T
	seen map[string]*yaml.Node
}

// decodePairs decodes the form in which the key is the name.
func (l *namedDecoder[T]) decodePairs(node *yaml.Node, path string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, val := node.Content[i], node.Content[i+1]
		one := new(T)
		fs := l.table(one)
		fs[0].value.decode(l.decoder, key, path)
		full := joinPath(path, truncateText(key.Value))
		l.keys[full], l.values[full] = key, val
		switch {
		case !isNull(val) && !isEmpty(val):
			l.decodeSection(val, full, fs[1:])
		case !l.empty:
			l.errorf(key, "%s has no value", full)
		}
		l.addNamed(key, full, one)
	}
}

// decodeListEntry decodes an entry of the list form.
func (l *namedDecoder[T]) decodeListEntry(_ int, entry *yaml.Node, path string) {
	one := new(T)
	fs := l.table(one)
	if entry.Kind == yaml.ScalarNode && l.empty {
		fs[0].value.decode(l.decoder, entry, path)
	} else {
		l.decodeSection(entry, path, fs)
	}
	l.addNamed(entry, path, one)
}

func (l *namedDecoder[T]) addNamed(at *yaml.Node, path string, one *T) {
	name := l.name(one)
	if name == "" {
		return
	}
	if first := l.seen[name]; first != nil {
		l.errorf(at, "%s %q is listed twice: first on line %d", l.noun, name, l.source.first+first.Line)
		return
	}
	l.seen[name] = at
	if l.check != nil {
		l.check(l.decoder, at, path)
	}
	*l.to = append(*l.to, *one)
}
