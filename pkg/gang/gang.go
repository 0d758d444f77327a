// Package gang reads which pods start together, and how many: from a pod the group that it is a member of, and from an object the requirements
// of its members. Three kinds of objects represent a group: a PodGroup that its pods name by a label, a PodGroup of Kubernetes that they name in
// a field, and the workload of an operator whose pods are recognized by the labels that it sets. It is the only package that knows those labels,
// fields and kinds; it makes no API requests.
package gang

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// NamedGroup returns the PodGroup that a pod names by its label, and false for a pod that names none.
func NamedGroup(pod *corev1.Pod) (types.NamespacedName, bool) {
	name := pod.Labels[names.LabelPodGroup]
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// GroupSelector is the label selector of pods that name a PodGroup.
const GroupSelector = names.LabelPodGroup

// SetGroup makes pods with these labels members of a PodGroup.
func SetGroup(labels map[string]string, group string) { labels[names.LabelPodGroup] = group }

// WithoutGroup returns labels without the PodGroup that they name.
func WithoutGroup(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, names.LabelPodGroup)
	return out
}

// UnitOf returns an equal key for pods that start and leave together, judged by the pods alone, and "" for any other pod. The pods of a Job without a
// PodGroup have none: whether its indexes need each other is in the Job.
func UnitOf(pod *corev1.Pod) string {
	if name, named := NamedGroup(pod); named {
		return name.String() + "/" + string(ownerOf(pod))
	}
	m, recognized := Recognize(pod)
	switch {
	case !recognized || m.Kind == KindJob:
		return ""
	case m.Kind == KindLeaderWorkerSet:
		return pod.Namespace + "/" + m.PartName()
	}
	return pod.Namespace + "/" + m.GroupName()
}

// MayBeMember reports whether a pod may be a member of a group, judged by the pod alone: its workload may still turn out to need no gang.
func MayBeMember(pod *corev1.Pod) bool {
	return KeyOf(pod) != ""
}

// NamesFor returns the possible names of the group of a pod, judged by the pod alone: which of them applies depends on an object that may be
// gone by now.
func NamesFor(pod *corev1.Pod) []types.NamespacedName {
	if name, named := NamedGroup(pod); named {
		return []types.NamespacedName{name}
	}
	m, recognized := Recognize(pod)
	if !recognized {
		return nil
	}
	out := []types.NamespacedName{{Namespace: pod.Namespace, Name: m.GroupName()}}
	if m.Part != "" {
		out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: m.PartName()})
	}
	return out
}

// KeyOf returns an equal key for pods that may be members of one group, judged by the pods alone; "" for a pod without a group. Pods of two
// parts of one object have the same key.
func KeyOf(pod *corev1.Pod) string {
	if name, named := NamedGroup(pod); named {
		return name.Name
	}
	if m, recognized := Recognize(pod); recognized {
		return m.GroupName()
	}
	return ""
}

// Membership names the object that the group of a pod comes from.
type Membership struct {
	// Kind is the object's.
	Kind string
	// Object is its name; it is in the pod's namespace.
	Object string
	// Part is the subset of its pods that the pod may start together with, if these are not all of them: a replicated job of a JobSet, or the
	// index of a replica of a LeaderWorkerSet.
	Part string
}

// GroupName returns the name of the group of all pods of the object, within the pod's namespace: "JobSet/train". No Kubernetes object has a slash in
// its name, so it is never the name of a PodGroup that pods name by a label.
func (m Membership) GroupName() string { return m.Kind + "/" + m.Object }

// PartName returns the name of the group of the object's part, "JobSet/train/workers", "" if there is none.
func (m Membership) PartName() string {
	if m.Part == "" {
		return ""
	}
	return m.GroupName() + "/" + m.Part
}

// Recognize returns the object whose pods a pod starts together with, by the labels and fields that its operator sets, and its controller. It returns
// false for a pod that names a PodGroup by the label, which takes precedence, and for a pod without any of them.
func Recognize(pod *corev1.Pod) (Membership, bool) {
	if pod.Labels[names.LabelPodGroup] != "" {
		return Membership{}, false
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil && *group.PodGroupName != "" {
		return Membership{Kind: KindPodGroup, Object: *group.PodGroupName}, true
	}
	return recognizeByOwner(pod)
}

// recognizeByOwner returns the operator's object that a pod was made for.
func recognizeByOwner(pod *corev1.Pod) (Membership, bool) {
	for _, recognize := range recognizers {
		if m := recognize(pod); m.Object != "" && isMadeFor(pod, m.Object) {
			return m, true
		}
	}
	return Membership{}, false
}

// isMadeFor reports whether the controller of a pod is an object, or one that is made for it: all operators name these after it. Labels alone would let
// a pod pass for one of any workload of its namespace.
func isMadeFor(pod *corev1.Pod, object string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Name == object || strings.HasPrefix(owner.Name, object+"-"))
}

// Parse parses the name of a group as written by [Membership.GroupName] and [Membership.PartName], and returns false for that of a PodGroup that pods
// name by a label.
func Parse(group string) (Membership, bool) {
	parts := strings.SplitN(group, "/", 3)
	if len(parts) < 2 {
		return Membership{}, false
	}
	m := Membership{Kind: parts[0], Object: parts[1]}
	if len(parts) == 3 {
		m.Part = parts[2]
	}
	return m, true
}
