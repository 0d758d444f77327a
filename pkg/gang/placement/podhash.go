package placement

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// PerMemberLabels are labels that differ between members of a job, and that no filter uses.
var PerMemberLabels = []string{batchv1.JobCompletionIndexAnnotation, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}

// podHash is a hash, and the number of bytes that were hashed.
type podHash struct {
	hash  maphash.Hash
	bytes int
}

// HashPod returns equal hashes for members of a role that the filters treat alike: the hash covers affinity to other pods, spreading, ports,
// claims and volumes. It also returns the number of bytes read. Comparing members with each other instead would cost as much for each class of
// them.
func HashPod(pod *corev1.Pod, role int) (of uint64, bytes int) {
	var i podHash
	i.hash.SetSeed(Seed)
	i.writeInt(role)
	for _, label := range slices.Sorted(maps.Keys(pod.Labels)) {
		if !slices.Contains(PerMemberLabels, label) {
			i.writeBytes([]byte(label))
			i.writeBytes([]byte(pod.Labels[label]))
		}
	}
	i.writeInt(-1) // separates two lists
	if pod.Spec.Affinity != nil {
		i.addPart(pod.Spec.Affinity, pod)
	}
	i.writeInt(-1)
	for n := range pod.Spec.TopologySpreadConstraints {
		i.addPart(&pod.Spec.TopologySpreadConstraints[n], pod)
	}
	i.writeInt(-1)
	for n := range pod.Spec.ResourceClaims {
		i.addPart(&pod.Spec.ResourceClaims[n], pod)
	}
	i.addPorts(pod.Spec.Containers, pod)
	i.addPorts(pod.Spec.InitContainers, pod)
	i.addVolumes(pod)
	return i.hash.Sum64(), i.bytes
}

func (i *podHash) addPorts(containers []corev1.Container, pod *corev1.Pod) {
	for n := range containers {
		i.writeInt(-1)
		for m := range containers[n].Ports {
			i.addPart(&containers[n].Ports[m], pod)
		}
	}
}

// addVolumes adds the volumes of a pod that are not available on every node. An ephemeral volume is specific to the pod, and named after it.
func (i *podHash) addVolumes(pod *corev1.Pod) {
	i.writeInt(-1)
	for n := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[n].VolumeSource
		if IsEverywhere(v) {
			continue
		}
		if v.Ephemeral != nil {
			i.writeBytes([]byte(pod.Name))
		}
		i.addPart(v, pod)
	}
}

// IsEverywhere reports whether a volume is available on every node.
func IsEverywhere(v *corev1.VolumeSource) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// addPart hashes a part of a pod. A part that cannot be marshalled makes the pod unique.
func (i *podHash) addPart(part interface{ Marshal() ([]byte, error) }, pod *corev1.Pod) {
	data, err := part.Marshal()
	if err != nil {
		data = []byte(pod.UID)
	}
	i.writeBytes(data)
}

func (i *podHash) writeBytes(data []byte) {
	i.writeInt(len(data))
	i.bytes += len(data)
	_, _ = i.hash.Write(data) // it never fails
}

func (i *podHash) writeInt(n int) {
	_, _ = i.hash.Write(binary.AppendVarint(nil, int64(n)))
}

// maxReadBytes is how many bytes of members are read to check whether they are alike.
const maxReadBytes = 1 << 20

// AreAlike reports whether filters treat all waiting and all placed members like the given one. Otherwise other members may use room where that
// one cannot go, and leave their room to it.
func (m *Members) AreAlike(pod *corev1.Pod) bool {
	own, read := HashPod(pod, 0)
	for _, members := range [][]*corev1.Pod{m.Waiting, m.Placed} {
		for _, other := range members {
			of, bytes := HashPod(other, 0)
			if read += bytes; read > maxReadBytes || of != own || !HaveSameDemand(pod, other) {
				return false
			}
		}
	}
	return true
}
