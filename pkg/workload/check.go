package workload

import (
	"errors"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkJob checks what concerns more than one field of a job. It runs also on jobs with wrong fields, so
// that all problems appear at once, and must not conclude anything from a field that may be wrong.
func checkJob(d *decoder, j *Job) {
	checkGPU(d, &j.Resources)
	checkSHM(d, j)
	for i := range j.Resources.Tolerations {
		checkToleration(d, fmt.Sprintf("resources.tolerations[%d]", i), &j.Resources.Tolerations[i])
	}
	if j.Service != nil {
		checkService(d, j)
	}
	mounted := map[string]int{}
	for i := range j.Storage.Workdirs {
		at := fmt.Sprintf("storage.workdirs[%d]", i)
		checkWorkdir(d, at, &j.Storage.Workdirs[i])
		checkMountedOnce(d, at, &j.Storage.Workdirs[i], mounted)
	}
}

func checkGPU(d *decoder, r *Resources) {
	if r.GPU > 0 || (d.has("resources.gpu") && !isZero(d, "resources.gpu")) {
		return
	}
	if d.has("resources.gpu-share") {
		d.errorf(d.keys["resources.gpu-share"], "resources.gpu-share needs resources.gpu: write how many GPUs, such as \"gpu: 1\"")
	}
	if d.has("resources.gpu-type") {
		d.warnf(d.keys["resources.gpu-type"], "the job asks for a gpu-type but for no GPU: add \"gpu: 1\" if it needs one")
	}
}

func isZero(d *decoder, path string) bool {
	return d.values[path] != nil && d.values[path].Value == "0"
}

func checkSHM(d *decoder, j *Job) {
	r := &j.Resources
	if r.SHM == nil || r.SHM.IsZero() {
		return
	}
	if r.Memory != nil && r.SHM.Cmp(*r.Memory) > 0 {
		d.errorf(d.valueAt("resources.shm"), "resources.shm is larger than resources.memory (%s), of which it is a part", r.Memory)
	}
	for i := range j.Storage.Workdirs {
		if path.Clean(j.Storage.Workdirs[i].mountedAt()) == "/dev/shm" {
			d.errorf(d.valueAt("resources.shm"), "/dev/shm is mounted twice: by resources.shm and storage.workdirs[%d]", i)
		}
	}
}

// mountedAt is the mount path before defaults are filled in.
func (w *Workdir) mountedAt() string {
	if w.MountPath != "" {
		return w.MountPath
	}
	return w.Path
}

func checkToleration(d *decoder, at string, t *corev1.Toleration) {
	wrong := func(field, format string, args ...any) {
		d.errorf(d.valueAt(join(at, field)), "%s: "+format, append([]any{at}, args...)...)
	}
	if !d.isSection(at) {
		return
	}
	switch {
	case t.Key == "" && !d.has(join(at, "key")) && t.Operator != corev1.TolerationOpExists:
		wrong("key", "a toleration needs a key, or the operator Exists to accept every taint")
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		wrong("value", "the operator Exists accepts every value: leave value out, or use Equal")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		wrong("toleration-seconds", "toleration-seconds needs the effect NoExecute")
	}
}

func taintKey(s string) (string, error) {
	if len(validation.IsQualifiedName(s)) > 0 {
		return "", errors.New("is not the key of a taint")
	}
	return s, nil
}

func taintValue(s string) (string, error) {
	if len(validation.IsValidLabelValue(s)) > 0 {
		return "", errors.New("is not the value of a taint: use at most 63 letters, digits, '-', '_' and '.'")
	}
	return s, nil
}

func checkService(d *decoder, j *Job) {
	if j.Kind == KindNotebook && d.has("service.replicas") {
		if j.Service.Replicas == 1 {
			d.warnf(d.keys["service.replicas"], "a notebook always has one replica: service.replicas may be left out")
		} else {
			d.errorf(d.valueAt("service.replicas"), "service.replicas: a notebook has exactly one replica")
		}
	}
	if j.Kind == KindCompute && !d.has("service.port") {
		for _, field := range []string{"service.target-port", "service.type", "service.health-check"} {
			if d.has(field) {
				d.errorf(d.keys[field], "%s needs service.port", field)
			}
		}
	}
	if d.has("service.startup-timeout") && !d.has("service.health-check") {
		d.errorf(d.keys["service.startup-timeout"], "service.startup-timeout needs service.health-check, which tells when the job has started")
	}
}

func checkWorkdir(d *decoder, at string, w *Workdir) {
	if !d.isSection(at) {
		return
	}
	has := func(field string) bool { return d.has(join(at, field)) }
	wrong := func(field, message string) { d.errorf(d.valueAt(join(at, field)), "%s: %s", at, message) }
	if has("pvc") || has("size") {
		checkClaim(has, wrong)
	} else if has("storage-class") {
		wrong("storage-class", "storage-class needs size: it is the class of a new claim")
	}
	onClaim := has("mount-path") && (has("pvc") || has("size"))
	if !has("path") && !onClaim {
		d.errorf(d.keys[at], "%s.path is missing (for example \"path: /datasets\")", at)
	}
	if w.Path != "" && !has("mount-path") {
		if _, err := mountPath(w.Path); err != nil {
			wrong("path", fmt.Sprintf("%q %v", w.Path, err))
		}
	}
}

// checkClaim checks a workdir that mounts a claim. has tells which fields it has; wrong reports one of them.
func checkClaim(has func(field string) bool, wrong func(field, message string)) {
	if has("pvc") && has("size") {
		wrong("size", "pvc mounts an existing claim and size makes a new one: keep one of them")
	} else if has("storage-class") && !has("size") {
		wrong("storage-class", "storage-class needs size: it is the class of a new claim")
	}
	if has("type") {
		wrong("type", "type is for paths of the node: leave it out with pvc and size")
	}
	if has("path") && has("mount-path") {
		wrong("path", "a claim has one path: keep path or mount-path")
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
