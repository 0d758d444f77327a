package gang

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// AsLabelled returns a copy of a member of a recognized gang that names a PodGroup by the label, and that PodGroup: for a world that has no other
// objects of gangs, such as a simulation.
func (g Gang) AsLabelled(member *corev1.Pod) (*corev1.Pod, *unstructured.Unstructured) {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(g.MinMembers)}}}
	group.SetAPIVersion(names.PodGroupAPIVersion)
	group.SetKind(names.PodGroupKind)
	group.SetNamespace(g.Group.Namespace)
	group.SetName(strings.ToLower(strings.ReplaceAll(g.Group.Name, "/", ".")))
	annotations := map[string]string{names.AnnotationSeveralOwners: names.True}
	if g.Topology != "" {
		annotations[names.AnnotationTopology] = g.Topology
	}
	group.SetAnnotations(annotations)
	pod := member.DeepCopy()
	if pod.Labels = maps.Clone(pod.Labels); pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	SetGroup(pod.Labels, group.GetName())
	return pod, group
}

// DefiningName returns a name that all pods share whose gang the same part of the same object defines, "" for a pod without a gang.
func DefiningName(pod *corev1.Pod) string {
	all := NamesFor(pod)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].String()
}
