package workload

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// checkJob validates relations between fields of a job. It also runs on jobs with invalid fields, so that all problems are reported at once, and must
// not draw conclusions from a field that may be invalid.
func checkJob(d *decoder, j *Job) {
	checkGPU(d, &j.Resources)
	checkSHM(d, j)
	checkGang(d, j)
	checkArray(d, j)
	if j.Name != "" && slices.Contains(j.DependsOn, j.Name) {
		d.errorf(d.valueAt("job.depends-on"), "job.depends-on: the job cannot start after itself")
	}
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
	checkLocalFolder(d, j, mounted)
}

func checkGPU(d *decoder, r *Resources) {
	if r.AsksGPUs() || d.intendsField("resources.mig") || (d.intendsField("resources.gpu") && !isZero(d, "resources.gpu")) {
		return
	}
	if len(r.GPUTypes) > 0 && r.Preset == "" {
		d.warnf(d.keys["resources.gpu-type"], "the job asks for a gpu-type but for no GPU: add \"gpu: 1\" if it needs one")
	}
}

func isZero(d *decoder, path string) bool {
	return d.values[path] != nil && d.values[path].Value == "0"
}

// maxGangName is the maximum length of the name of a job on several nodes: its Service is called svc-<name>, and the host name of the last of a
// thousand members is <name>-999.
const maxGangName = 59

func checkGang(d *decoder, j *Job) {
	if j.IsGang() && len(j.Name) > maxGangName {
		d.errorf(d.valueAt("job.name"), "job.name: %q is too long: it has %d characters, and a job on several nodes may have at most %d",
			j.Name, len(j.Name), maxGangName)
	}
	if j.Resources.Topology != nil && j.Resources.Nodes == 1 && d.hasField("resources.nodes") {
		d.warnf(d.keys["resources.topology"], "the job runs on one node, so resources.topology changes nothing")
	} else if t := j.Resources.Topology; t != nil && t.Segment >= j.Resources.Nodes {
		d.warnf(d.keys["resources.topology.segment"], "the job runs on %d nodes, so all of them are one segment", j.Resources.Nodes)
	}
	if t := j.Resources.Topology; t != nil && t.Wait != nil && t.Mode == TopologyRequired {
		d.errorf(d.valueAt("resources.topology.wait"), "resources.topology.wait is for mode: preferred: with required the job waits for as long as it takes")
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
		if path.Clean(dir.effectiveMountPath()) == "/dev/shm" {
			d.errorf(d.valueAt("resources.shm"), "/dev/shm is mounted twice: by resources.shm and %s", at)
		}
	}
}

// effectiveMountPath returns the mount path before defaults are filled in.
func (w *Workdir) effectiveMountPath() string {
	if w.MountPath != "" {
		return w.MountPath
	}
	return w.Path
}

func checkToleration(d *decoder, at string, t *corev1.Toleration) {
	wrong := func(field string, says phrase.Text) { d.errorf(d.valueAt(joinPath(at, field)), "%s: %s", at, says) }
	if !d.isSection(at) {
		return
	}
	switch {
	case t.Key == "" && !d.intendsField(joinPath(at, "key")) && t.Operator != corev1.TolerationOpExists:
		wrong("key", phrase.Textf("a toleration needs a key, or the operator Exists to accept every taint"))
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		wrong("value", phrase.Textf("the operator Exists accepts every value: leave value out, or use Equal"))
	}
	if t.TolerationSeconds != nil && t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
		wrong("toleration-seconds", phrase.Textf("toleration-seconds needs the effect NoExecute"))
	}
}

func taintKey(s string) (string, error) {
	if len(validation.IsQualifiedName(s)) > 0 {
		return "", phrase.Errorf("is not the key of a taint")
	}
	return s, nil
}

func taintValue(s string) (string, error) {
	if len(validation.IsValidLabelValue(s)) > 0 {
		return "", phrase.Errorf("is not the value of a taint: use at most 63 letters, digits, '-', '_' and '.'")
	}
	return s, nil
}

func checkService(d *decoder, j *Job) {
	if j.Kind == KindNotebook && d.hasField("service.replicas") {
		if j.Service.Replicas == 1 {
			d.warnf(d.keys["service.replicas"], "a notebook always has one replica: service.replicas may be left out")
		} else {
			d.errorf(d.valueAt("service.replicas"), "service.replicas: a notebook has exactly one replica")
		}
	}
	checkAutoscaling(d, j)
}

// checkAutoscaling validates the bounds of the replicas, and that there is a metric.
func checkAutoscaling(d *decoder, j *Job) {
	const at = "service.autoscaling"
	a := j.Service.Autoscaling
	if a == nil || !d.isSection(at) {
		return
	}
	if a.Max != 0 && a.Min > a.Max {
		d.errorf(d.valueAt(at+".min"), "service.autoscaling.min is %d, more than max, which is %d", a.Min, a.Max)
	}
	if !d.intendsField(at+".cpu-utilization") && !d.intendsField(at+".gpu-utilization") {
		d.errorf(d.keys[at], "service.autoscaling needs a measure: write \"cpu-utilization: 80\" or \"gpu-utilization: 70\"")
	}
}

func checkWorkdir(d *decoder, at string, w *Workdir) {
	if !d.isSection(at) {
		return
	}
	has := func(field string) bool { return d.hasField(joinPath(at, field)) }
	wrong := func(field string, says phrase.Text) { d.errorf(d.valueAt(joinPath(at, field)), "%s: %s", at, says) }
	claim := has("pvc") || has("size")
	switch {
	case claim && has("path") && has("mount-path"):
		wrong("path", phrase.Textf("a claim has one path: keep path or mount-path"))
	case !d.intendsField(joinPath(at, "path")) && (!claim || !d.intendsField(joinPath(at, "mount-path"))):
		d.errorf(d.keys[at], "%s.path is missing (for example \"path: /datasets\")", at)
	}
	if w.Path != "" && !has("mount-path") {
		if _, err := mountPath(w.Path); err != nil {
			wrong("path", phrase.Textf("%q %v", w.Path, err))
		}
	}
}

func checkMountedOnce(d *decoder, at string, w *Workdir, mounted map[string]int) {
	where := w.effectiveMountPath()
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
