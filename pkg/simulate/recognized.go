package simulate

import (
	"cmp"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/gang"
)

// isGangKind reports whether the scheduler recognizes gangs by objects of a kind.
func isGangKind(kind schema.GroupVersionKind) bool {
	for _, known := range gang.Kinds() {
		if known.Name == kind.Kind && known.Resource.GroupVersion() == kind.GroupVersion() {
			return true
		}
	}
	return false
}

// recognizer has the members of recognized gangs name PodGroups, as a simulation has no objects of operators.
type recognizer struct {
	objects map[objectName]*unstructured.Unstructured
	groups  map[types.NamespacedName]*gangsv1.PodGroup
}

// objectName names an object in one version of its API.
type objectName struct {
	version, kind string
	types.NamespacedName
}

// newRecognizer knows the objects of a list that define gangs.
func newRecognizer(objects []runtime.Object) (recognizer, error) {
	r := recognizer{objects: map[objectName]*unstructured.Unstructured{}, groups: map[types.NamespacedName]*gangsv1.PodGroup{}}
	for _, object := range objects {
		untyped, ok := object.(*unstructured.Unstructured)
		if job, isJob := object.(*batchv1.Job); isJob {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
			if err != nil {
				return recognizer{}, err
			}
			untyped, ok = &unstructured.Unstructured{Object: fields}, true
			untyped.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind(gang.KindJob))
		}
		if ok {
			name := types.NamespacedName{Namespace: cmp.Or(untyped.GetNamespace(), corev1.NamespaceDefault), Name: untyped.GetName()}
			r.objects[objectName{untyped.GetAPIVersion(), untyped.GetKind(), name}] = untyped
		}
	}
	return r, nil
}

// sortedGroups returns the PodGroups that pods name, sorted by name.
func (r recognizer) sortedGroups() []*gangsv1.PodGroup {
	return slices.SortedFunc(maps.Values(r.groups), func(a, b *gangsv1.PodGroup) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// labelPod returns a pod as it names the PodGroup of its gang, if it is a member of a recognized one.
func (r recognizer) labelPod(pod *corev1.Pod) (*corev1.Pod, error) {
	if _, named := gang.NamedGroup(pod); named {
		return pod, nil
	}
	for _, source := range gang.SourcesOf(pod) {
		object := r.objects[objectName{source.Resource.GroupVersion().String(), source.Kind, types.NamespacedName{Namespace: pod.Namespace, Name: source.Name}}]
		if object == nil {
			continue
		}
		of, isGang := source.Read(object)
		if !isGang || !of.HasMember(pod) {
			return pod, nil
		}
		member, untyped := of.AsLabelled(pod)
		group := &gangsv1.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, group); err != nil {
			return nil, err
		}
		if name, _ := gang.NamedGroup(member); r.groups[name] == nil {
			r.groups[name] = group
		}
		return member, nil
	}
	return pod, nil
}
