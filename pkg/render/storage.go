package render

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// mount is a volume of the pod and its path in the container.
type mount struct {
	volume   corev1.Volume
	path     string
	readOnly bool
	// claimFor is the workdir for which a claim is created; nil for all other volumes.
	claimFor *workload.Workdir
}

// jobMounts returns the workdirs of a job in order, then its named volumes, /dev/shm and the preemption notice, and last the submitted folder.
func jobMounts(job *workload.Job) []mount {
	var out []mount
	taken := volumeNames{}
	taken.takeName(shmVolume)
	taken.takeName(noticeVolume)
	if job.Workdir != "" {
		taken.takeName(workload.WorkdirVolume)
		taken.takeName(workload.UploadVolume)
	}
	for i := range job.Storage.Volumes {
		taken.takeName(job.Storage.Volumes[i].Name)
	}
	for i := range job.Storage.Workdirs {
		dir := &job.Storage.Workdirs[i]
		named := dir.Path
		if named == "" {
			named = dir.MountPath
		}
		out = append(out, newMount(job, dir, taken.nextName(named)))
	}
	for i := range job.Storage.Volumes {
		v := &job.Storage.Volumes[i]
		out = append(out, newMount(job, &v.Workdir, v.Name))
	}
	if shm, ok := sharedMemory(job); ok {
		out = append(out, shm)
	}
	if told, ok := preemptionNoticeMount(job); ok {
		out = append(out, told)
	}
	if job.Workdir != "" {
		out = append(out, unpackMount())
	}
	return out
}

func newMount(job *workload.Job, dir *workload.Workdir, name string) mount {
	m := mount{volume: corev1.Volume{Name: name}, path: dir.MountPath, readOnly: dir.ReadOnly}
	switch {
	case dir.Claim != "":
		m.volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: dir.Claim}
	case dir.Size != nil:
		m.volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(job, name)}
		m.claimFor = dir
	default:
		m.volume.HostPath = &corev1.HostPathVolumeSource{Path: dir.Path}
		if dir.Type != "" {
			m.volume.HostPath.Type = ptr.To(dir.Type)
		}
	}
	return m
}

// claimName returns the name of the claim created for a volume of a job.
func claimName(job *workload.Job, volume string) string {
	return TopName(job.Kind, job.Name) + "-" + volume
}

// shmPath is the path of shared memory. Container runtimes give it 64 MiB, too little for PyTorch's data loaders and for NCCL.
const shmPath = "/dev/shm"

// shmVolume is the name of the volume at shmPath.
const shmVolume = "shm-volume"

// sharedMemory returns the /dev/shm of a job. Its pages count against the container's memory, so a job with GPUs and no given size gets half of its
// memory, as Linux does for a machine.
func sharedMemory(job *workload.Job) (mount, bool) {
	size := job.Resources.SHM
	switch {
	case size != nil && size.IsZero(), size == nil && (!job.Resources.AsksGPUs() || mountsSHM(job)):
		return mount{}, false
	case size == nil && job.Resources.Memory != nil:
		size = resource.NewQuantity(job.Resources.Memory.Value()/2, resource.BinarySI)
	}
	return mount{path: shmPath, volume: corev1.Volume{
		Name: shmVolume,
		VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size},
		},
	}}, true
}

func mountsSHM(job *workload.Job) bool {
	for dir := range job.Storage.Dirs() {
		if path.Clean(dir.MountPath) == shmPath {
			return true
		}
	}
	return false
}

func podVolumes(mounts []mount) []corev1.Volume {
	var out []corev1.Volume
	for _, m := range mounts {
		out = append(out, m.volume)
	}
	return out
}

func volumeMounts(mounts []mount) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, m := range mounts {
		out = append(out, corev1.VolumeMount{Name: m.volume.Name, MountPath: m.path, ReadOnly: m.readOnly})
	}
	return out
}

// newClaims returns the claims to create with the job.
func (r *renderer) newClaims() []client.Object {
	var out []client.Object
	for _, m := range r.mounts {
		if m.claimFor != nil {
			out = append(out, r.newClaim(m))
		}
	}
	return out
}

func (r *renderer) newClaim(m mount) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: r.objectMeta(m.volume.PersistentVolumeClaim.ClaimName),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{r.accessMode()},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *m.claimFor.Size},
			},
		},
	}
	if class := m.claimFor.StorageClass; class != "" {
		claim.Spec.StorageClassName = ptr.To(class)
	}
	return claim
}

// accessMode lets every replica and every gang member write, on whichever node it runs.
func (r *renderer) accessMode() corev1.PersistentVolumeAccessMode {
	s := r.job.Service
	if r.job.IsGang() || s != nil && (s.Replicas > 1 || s.Autoscaling != nil && s.Autoscaling.Max > 1) {
		return corev1.ReadWriteMany
	}
	return corev1.ReadWriteOnce
}

// checkHostPaths refuses a job that mounts a disallowed host path. It informs authors early; the policy in manifests/policy enforces it for everyone.
func checkHostPaths(job *workload.Job, allowed []string) error {
	if allowed == nil {
		return nil
	}
	for dir, at := range job.Storage.Dirs() {
		if dir.Path == "" || slices.ContainsFunc(allowed, func(prefix string) bool { return isBelow(dir.Path, prefix) }) {
			continue
		}
		return phrase.Errorf("%s: the administrator does not allow jobs to mount %s of the node (%s): use pvc or size, or ask for it",
			at, dir.Path, allowedText(allowed))
	}
	return nil
}

// isBelow reports whether a path is prefix or below it.
func isBelow(p, prefix string) bool {
	p, prefix = path.Clean(p), path.Clean(prefix)
	return p == prefix || strings.HasPrefix(p, strings.TrimSuffix(prefix, "/")+"/")
}

func allowedText(allowed []string) string {
	if len(allowed) == 0 {
		return "no path is allowed"
	}
	return "allowed: " + strings.Join(allowed, ", ")
}
