package workload

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// placedField is a field at its position in a document.
type placedField struct {
	field
	// path is the field's path, and section that of its section.
	path, section string
	key           *yaml.Node
}

// checkRelations reports fields whose needed fields are missing, or that exclude each other. It runs when the whole document is decoded.
func (d *decoder) checkRelations() {
	for _, p := range d.placed {
		for _, name := range p.needs {
			need := relativePath(p.section, name)
			if !d.source.filled && !d.intendsField(need) && d.hasField("resources.preset") && strings.HasPrefix(need, "resources.") {
				continue // the preset may have it: the document is checked again after it is filled in
			}
			if !d.intendsField(need) || isZero(d, need) {
				d.errorf(p.key, "%s needs %s%s", p.path, need, d.fieldHint(need))
			}
		}
		for _, name := range p.excludes {
			if other := d.keys[relativePath(p.section, name)]; other != nil {
				d.errorf(p.key, "%s and %s exclude each other: keep one of them", p.path, relativePath(p.section, name))
			}
		}
	}
}

// relativePath resolves a field name relative to a section: a field of the same section, or, if the name contains or begins with a dot, a path from
// the top of the document.
func relativePath(section, name string) string {
	if top, ok := strings.CutPrefix(name, "."); ok {
		return top
	}
	if strings.Contains(name, ".") {
		return name
	}
	return joinPath(section, name)
}

// fieldHint shows how the field at a path of this document is written.
func (d *decoder) fieldHint(path string) phrase.Text {
	fs := fieldTable(d.kind)
	var found field
	for _, name := range strings.Split(path, ".") {
		name, _, _ = strings.Cut(name, "[")
		f, ok := fs.findField(name)
		if !ok && len(fs) > 0 && fs[len(fs)-1].free {
			f = fs[len(fs)-1]
		}
		found, fs = f, f.value.fields
	}
	return found.exampleHint()
}
