package gang

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Gang names a gang, and says how many members it needs.
type Gang struct {
	// Group is the name of its group, as [NamedGroup] has it or [Membership] writes it.
	Group types.NamespacedName
	// Owner is the controller of its members, "" if the group gathers those of several.
	Owner types.UID
	// MinMembers is how many members it needs.
	MinMembers int
	// Topology is the layout of its members, in the form of the annotation g8s.host/topology; "" for a PodGroup that pods name by a label, which has it.
	Topology string
}

// HasMember reports whether a pod is a member. The required size of an object excludes succeeded pods, so such a pod is not a member of a gang
// that is read from an object.
func (g Gang) HasMember(pod *corev1.Pod) bool {
	if pod.Namespace != g.Group.Namespace {
		return false
	}
	if m, ok := Recognize(pod); ok {
		return (g.Group.Name == m.GroupName() || g.Group.Name == m.PartName()) && pod.Status.Phase != corev1.PodSucceeded
	}
	name, named := NamedGroup(pod)
	return named && name == g.Group && (g.Owner == "" || g.Owner == ownerOf(pod))
}

// MemberLabels returns labels that all members have, and that members can be listed by; nil if they have none in common.
func (g Gang) MemberLabels() map[string]string {
	m, recognized := Parse(g.Group.Name)
	if !recognized {
		return map[string]string{names.LabelPodGroup: g.Group.Name}
	}
	if label := labelOf(m.Kind); label != "" {
		return map[string]string{label: m.Object}
	}
	return nil
}

func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// Source is an object that may define the gang of a pod.
type Source struct {
	Resource schema.GroupVersionResource
	// Kind is that of the resource, and Name the object's, in the pod's namespace.
	Kind, Name string

	readGang func(object *unstructured.Unstructured) (Gang, bool)
}

// Read returns the gang of the pod, and false if the object says that it is in none, or is malformed: then the scheduler makes no gang of it
// either.
func (s Source) Read(object *unstructured.Unstructured) (Gang, bool) { return s.readGang(object) }

// SourcesOf returns the objects that may define the gang of a pod, in order of precedence; none for a pod without a gang. A pod without a
// controller that names a PodGroup is in none, because it would not be restarted.
func SourcesOf(pod *corev1.Pod) []Source {
	if name, named := NamedGroup(pod); named {
		owner := ownerOf(pod)
		if owner == "" {
			return nil
		}
		return []Source{{labelledGroups, names.PodGroupKind, name.Name, func(object *unstructured.Unstructured) (Gang, bool) {
			g := Gang{Group: name, Owner: owner}
			return g, g.readLabelled(object)
		}}}
	}
	m, recognized := Recognize(pod)
	if !recognized {
		return nil
	}
	var out []Source
	for _, kind := range kinds {
		if kind.Name == m.Kind {
			out = append(out, Source{kind.Resource, kind.Name, m.Object, func(object *unstructured.Unstructured) (Gang, bool) {
				return m.newGang(pod.Namespace, kind.Read(object))
			}})
		}
	}
	return out
}

// labelledGroups are the PodGroups that pods name by a label.
var labelledGroups = newResource("scheduling.x-k8s.io", "v1alpha1", "podgroups")

// ReadLabelled returns how many members a PodGroup that pods name by a label needs, and whether it gathers those of several controllers; false
// if it is malformed.
func ReadLabelled(object *unstructured.Unstructured) (least int, severalOwners, ok bool) {
	members, _, err := unstructured.NestedInt64(object.Object, "spec", "minMember")
	return int(min(max(members, 0), maxPods)), object.GetAnnotations()[names.AnnotationSeveralOwners] == names.True, err == nil
}

func (g *Gang) readLabelled(object *unstructured.Unstructured) bool {
	least, severalOwners, ok := ReadLabelled(object)
	g.MinMembers = least
	if severalOwners {
		g.Owner = ""
	}
	return ok
}

// newGang is the gang of a member of an object with such sizes.
func (m Membership) newGang(namespace string, sizes Sizes) (Gang, bool) {
	name, least := m.GroupName(), sizes.SizeOf("")
	if m.Part != "" && sizes.SizeOf(m.Part) > 0 {
		name, least = m.PartName(), sizes.SizeOf(m.Part)
	}
	return Gang{Group: types.NamespacedName{Namespace: namespace, Name: name}, MinMembers: least, Topology: sizes.Topology}, least > 0
}
