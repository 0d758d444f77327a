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
	checkGang(d, j)
	for i := range j.Resources.Tolerations {
		checkToleration(d, fmt.Sprintf("resources.tolerations[%d]", i), &j.Resources.Tolerations[i])
	}
	if j.Service != nil {
		checkService(d, j)
	}
	mounted := map[string]int{}
	for dir, at := range j.Storage.Dirs() {
		checkWorkdir(d, at, dir)
		checkMountedOnce(d, at, dir, mounted)
	}
}

func checkGPU(d *decoder, r *Resources) {
	if r.GPU > 0 || (d.has("resources.gpu") && !isZero(d, "resources.gpu")) {
		return
	}
	if d.has("resources.gpu-type") {
		d.warnf(d.keys["resources.gpu-type"], "the job asks for a gpu-type but for no GPU: add \"gpu: 1\" if it needs one")
	}
}

func isZero(d *decoder, path string) bool {
	return d.values[path] != nil && d.values[path].Value == "0"
}

// maxGangName is the length of the longest name of a job on several nodes: its Service is called svc-<name>, and the
// host name of the last of a thousand members is <name>-999.
const maxGangName = 59

func checkGang(d *decoder, j *Job) {
	if j.IsGang() && len(j.Name) > maxGangName {
		d.errorf(d.valueAt("job.name"), "job.name: %q is too long: it has %d characters, and a job on several nodes may have at most %d",
			j.Name, len(j.Name), maxGangName)
	}
}

func checkSHM(d *decoder, j *Job) {
	r := &j.Resources
	if r.SHM == nil || r.SHM.IsZero() {
		return
	}
	if r.Memory != nil && r.SHM.Cmp(*r.Memory) > 0 {
		d.errorf(d.valueAt("resources.shm"), "resources.shm is larger than resources.memory (%s), of which it is a part", r.Memory)
	}
	for dir, at := range j.Storage.Dirs() {
		if path.Clean(dir.mountedAt()) == "/dev/shm" {
			d.errorf(d.valueAt("resources.shm"), "/dev/shm is mounted twice: by resources.shm and %s", at)
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
	if t.TolerationSeconds != nil && t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
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
