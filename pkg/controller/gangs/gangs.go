// Package gangs reads the gangs of pods for controllers: the members from the cache, and the required number from committed state.
package gangs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// Gang are the pods that start and end together.
type Gang struct {
	Members []*corev1.Pod
	// Least is the required number of members, 0 for a pod without a gang.
	Least int
}

// Reader reads each gang once. The zero value of the unexported fields is ready.
type Reader struct {
	// Cache reads pods, and Live committed state.
	Cache, Live client.Reader

	known map[types.UID]*Gang
}

// GangOf returns the gang of a pod, or the pod alone if it has no gang, or if no object defines the size of its gang.
func (r *Reader) GangOf(ctx context.Context, pod *corev1.Pod) (*Gang, error) {
	if known := r.known[pod.UID]; known != nil {
		return known, nil
	}
	out, err := r.readGang(ctx, pod)
	if err != nil {
		return nil, err
	}
	if r.known == nil {
		r.known = map[types.UID]*Gang{}
	}
	for _, member := range append(out.Members, pod) {
		r.known[member.UID] = out
	}
	return out, nil
}

func (r *Reader) readGang(ctx context.Context, pod *corev1.Pod) (*Gang, error) {
	alone := &Gang{Members: []*corev1.Pod{pod}}
	found, ok, err := Define(ctx, r.Live, pod)
	if err != nil || !ok {
		return alone, err
	}
	var list corev1.PodList
	if err := r.Cache.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels(found.MemberLabels())); err != nil {
		return nil, fmt.Errorf("listing the members of %s: %w", found.Group, err)
	}
	out := &Gang{Least: found.MinMembers}
	for i := range list.Items {
		if member := &list.Items[i]; found.HasMember(member) {
			out.Members = append(out.Members, member)
		}
	}
	return out, nil
}

// Define reads the object that defines the gang of a pod; false for a pod that is in none.
func Define(ctx context.Context, live client.Reader, pod *corev1.Pod) (gang.Gang, bool, error) {
	for _, source := range gang.SourcesOf(pod) {
		object, err := getObject(ctx, live, source.Resource.GroupVersion().WithKind(source.Kind), pod.Namespace, source.Name)
		if err != nil {
			return gang.Gang{}, false, err
		}
		if object != nil {
			found, ok := source.Read(object)
			return found, ok, nil
		}
	}
	return gang.Gang{}, false, nil
}

// GroupOf reads the PodGroup that a pod names by its label, nil for none.
func GroupOf(ctx context.Context, live client.Reader, pod *corev1.Pod) (*unstructured.Unstructured, error) {
	name, named := gang.NamedGroup(pod)
	if !named {
		return nil, nil
	}
	return getObject(ctx, live, schema.FromAPIVersionAndKind(g8s.PodGroupAPIVersion, g8s.PodGroupKind), name.Namespace, name.Name)
}

// getObject reads an object, nil if there is none. A forbidden kind belongs to an operator that the controller's role does not cover: its pods are no gang
// for the scheduler either.
func getObject(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), apierrors.IsForbidden(err) && kind.GroupVersion().String() != g8s.PodGroupAPIVersion:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return object, nil
}

// Rules are the membership rules of a PodGroup that pods name by a label.
type Rules struct {
	// Least is the required number of members, 0 if unknown.
	Least         int
	SeveralOwners bool
}

// RulesOf reads a PodGroup that pods name by a label. A missing one, or one that the scheduler cannot read either, has no rules.
func RulesOf(ctx context.Context, live client.Reader, namespace, name string) (Rules, error) {
	object, err := getObject(ctx, live, schema.FromAPIVersionAndKind(g8s.PodGroupAPIVersion, g8s.PodGroupKind), namespace, name)
	if err != nil || object == nil {
		return Rules{}, err
	}
	least, several, ok := gang.ReadLabelled(object)
	if !ok {
		return Rules{}, nil
	}
	return Rules{Least: least, SeveralOwners: several}, nil
}
