package workload

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// placed is a field at its position in a document.
type placed struct {
	field
	// path is the field's path, and section that of its section.
	path, section string
	key           *yaml.Node
}

// checkRelations reports fields whose needed fields are missing, or that exclude each other. It runs when the whole document is decoded.
func (d *decoder) checkRelations() {
	for _, p := range d.placed {
		for _, name := range p.needs {
			need := relative(p.section, name)
			if !d.source.filled && !d.means(need) && d.has("resources.preset") && strings.HasPrefix(need, "resources.") {
				continue // the preset may have it: the document is checked again after it is filled in
			}
			if !d.means(need) || isZero(d, need) {
				d.errorf(p.key, "%s needs %s%s", p.path, need, d.hintOf(need))
			}
		}
		for _, name := range p.excludes {
			if other := d.keys[relative(p.section, name)]; other != nil {
				d.errorf(p.key, "%s and %s exclude each other: keep one of them", p.path, relative(p.section, name))
			}
		}
	}
}

// relative resolves a field name relative to a section: a field of the same section, or, if the name contains or begins with a dot, a path from
// the top of the document.
func relative(section, name string) string {
	if top, ok := strings.CutPrefix(name, "."); ok {
		return top
	}
	if strings.Contains(name, ".") {
		return name
	}
	return join(section, name)
}

// hintOf shows how the field at a path of this document is written.
func (d *decoder) hintOf(path string) phrase.Text {
	fs := tableOf(d.kind)
	var found field
	for _, name := range strings.Split(path, ".") {
		name, _, _ = strings.Cut(name, "[")
		f, ok := fs.find(name)
		if !ok && len(fs) > 0 && fs[len(fs)-1].free {
			f = fs[len(fs)-1]
		}
		found, fs = f, f.value.fields
	}
	return found.hint()
}
