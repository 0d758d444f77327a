package workload

import (
	"fmt"
	"path"
)

func checkWorkdir(d *decoder, at string, w *Workdir) {
	if !d.isSection(at) {
		return
	}
	has := func(field string) bool { return d.has(join(at, field)) }
	wrong := func(field, message string) { d.errorf(d.valueAt(join(at, field)), "%s: %s", at, message) }
	claim := has("pvc") || has("size")
	switch {
	case claim && has("path") && has("mount-path"):
		wrong("path", "a claim has one path: keep path or mount-path")
	case !has("path") && (!claim || !has("mount-path")):
		d.errorf(d.keys[at], "%s.path is missing (for example \"path: /datasets\")", at)
	}
	if w.Path != "" && !has("mount-path") {
		if _, err := mountPath(w.Path); err != nil {
			wrong("path", fmt.Sprintf("%q %v", w.Path, err))
		}
	}
}

func checkMountedOnce(d *decoder, at string, w *Workdir, mounted map[string]int) {
	where := w.mountedAt()
	if where == "" {
		return
	}
	where = path.Clean(where)
	if first, ok := mounted[where]; ok {
		d.errorf(d.valueAt(at), "%s: %s is mounted twice: first on line %d", at, where, first)
		return
	}
	mounted[where] = d.source.first + d.valueAt(at).Line
}
