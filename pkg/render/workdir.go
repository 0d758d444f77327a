package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// UnsentError says that the folder of a job is on a machine that the renderer cannot access.
type UnsentError struct{ Folder string }

func (e *UnsentError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *UnsentError) Message() phrase.Text {
	return phrase.Textf("job.workdir: %q is a folder of the machine that submits the job, and was not sent: create the job with gpuctl there", e.Folder)
}

const (
	uploadPath = "/workdir-upload"
	uploadKey  = "part"
	// digestInName is the length of the digest prefix in names: long enough that two folders of one job never share names.
	digestInName = 16
	// unpackScript runs in a shell of the job's own image, which needs no other image on the node and runs as the job's user. On failure its last
	// lines are the termination message. Links are last in the archive, and BusyBox creates links that lead out of the folder only with this
	// variable. Toybox reports success when it found no gzip and unpacked nothing, so the script checks the result: a submitted folder has at least
	// one file.
	unpackScript = `command -v tar >/dev/null || { echo "job.workdir needs tar in the image, and this one has none" >&2; exit 1; }
cat "$1"/* | EXTRACT_UNSAFE_SYMLINKS=1 tar -xzf - -C "$2" || exit 1
for file in "$2"/* "$2"/.[!.]* "$2"/..?*; do
  if [ -e "$file" ] || [ -L "$file" ]; then exit 0; fi
done
echo "job.workdir: tar unpacked nothing; it may need gzip in the image" >&2
exit 1`
)

// hasWorkdir reports whether a folder is submitted with the job.
func (r *renderer) hasWorkdir() bool { return r.job.Workdir != "" }

// unpackMount returns the mount of the unpacked folder. Each pod has its own fresh copy.
func unpackMount() mount {
	return mount{path: workload.WorkdirPath, volume: corev1.Volume{
		Name: workload.WorkdirVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
}

// addUpload adds the archive to a pod, and an init container that unpacks it. The container requests the CPU and memory of the job, which the pod
// gets anyway, so that quotas that require requests accept it.
func (r *renderer) addUpload(spec *corev1.PodSpec) {
	main := &spec.Containers[0]
	main.WorkingDir = workload.WorkdirPath
	archive := corev1.Volume{Name: workload.UploadVolume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: r.uploadProjections()},
	}}
	spec.Volumes = append(spec.Volumes, archive)
	spec.InitContainers = append(spec.InitContainers, corev1.Container{
		Name: names.ContainerUnpack, Image: main.Image, ImagePullPolicy: main.ImagePullPolicy,
		Command: []string{"sh", "-c", unpackScript, names.ContainerUnpack, uploadPath, workload.WorkdirPath},
		VolumeMounts: []corev1.VolumeMount{
			{Name: workload.UploadVolume, MountPath: uploadPath, ReadOnly: true},
			{Name: workload.WorkdirVolume, MountPath: workload.WorkdirPath},
		},
		Resources:                r.withoutGPUs(main.Resources),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	})
}

// withoutGPUs returns only the CPU and the memory of the requirements.
func (r *renderer) withoutGPUs(all corev1.ResourceRequirements) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, ok := all.Limits[name]; ok {
			list[name] = amount
		}
	}
	return r.equalRequirements(list)
}

// uploadProjections returns the parts of the archive as files, whose names sort in the order of the parts.
func (r *renderer) uploadProjections() []corev1.VolumeProjection {
	out := make([]corev1.VolumeProjection, r.upload.Parts)
	for i := range out {
		out[i].ConfigMap = &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.uploadName(i)},
			Items:                []corev1.KeyToPath{{Key: uploadKey, Path: fmt.Sprintf("%03d", i)}},
		}
	}
	return out
}

// uploadName returns the name of a part. Names depend on the folder's digest, so that a job never mixes parts of two folders.
func (r *renderer) uploadName(part int) string {
	return fmt.Sprintf("%s-%s-%s-%d", TopName(r.job.Kind, r.job.Name), workload.WorkdirVolume, r.upload.Digest[:digestInName], part)
}

// uploadConfigMaps returns the ConfigMaps with the parts of the archive. They are immutable, so nodes read each of them only once.
func (r *renderer) uploadConfigMaps() []client.Object {
	if !r.hasWorkdir() {
		return nil
	}
	var out []client.Object
	for i := range r.upload.Parts {
		part := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: r.objectMeta(r.uploadName(i)),
			Immutable:  ptr.To(true),
		}
		if data := r.upload.Part(i); data != nil {
			part.BinaryData = map[string][]byte{uploadKey: data}
		}
		out = append(out, part)
	}
	return out
}
