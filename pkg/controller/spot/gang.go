package spot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// gang are the pods that start and end together.
type gang struct {
	members []*corev1.Pod
	// least is how many it needs.
	least int
}

// gangs are those that were read during one reconciliation.
type gangs struct {
	client, live client.Reader
	known        map[string]*gang
}

// gangKey tells gangs apart, "" for a pod in none.
func gangKey(pod *corev1.Pod) string {
	group, owner := pod.Labels[g8s.LabelPodGroup], metav1.GetControllerOf(pod)
	if group == "" || owner == nil {
		return ""
	}
	return pod.Namespace + "/" + group + "/" + string(owner.UID)
}

// of is the gang of a pod: itself where it has none.
func (g *gangs) of(ctx context.Context, pod *corev1.Pod) (*gang, error) {
	alone := &gang{members: []*corev1.Pod{pod}}
	key := gangKey(pod)
	if key == "" {
		return alone, nil
	}
	if known := g.known[key]; known != nil {
		return known, nil
	}
	group := &unstructured.Unstructured{}
	group.SetAPIVersion(g8s.PodGroupAPIVersion)
	group.SetKind(g8s.PodGroupKind)
	err := g.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[g8s.LabelPodGroup]}, group)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return alone, nil // nobody says how many it needs
	}
	if err != nil {
		return nil, fmt.Errorf("reading PodGroup %s/%s: %w", pod.Namespace, pod.Labels[g8s.LabelPodGroup], err)
	}
	least, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	if err != nil {
		return alone, nil //nolint:nilerr // a group that the scheduler cannot read either
	}
	var list corev1.PodList
	if err := g.client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels{g8s.LabelPodGroup: group.GetName()}); err != nil {
		return nil, fmt.Errorf("listing the members of %s/%s: %w", pod.Namespace, group.GetName(), err)
	}
	out := &gang{least: int(least)}
	several := group.GetAnnotations()[g8s.AnnotationSeveralOwners] == g8s.True
	for i := range list.Items {
		if member := &list.Items[i]; several || gangKey(member) == key {
			out.members = append(out.members, member)
		}
	}
	if g.known == nil {
		g.known = map[string]*gang{}
	}
	g.known[key] = out
	return out, nil
}

// asking are those of a pod's gang that ask to be told when to save their state, as long as they can.
func (g *gangs) asking(ctx context.Context, pod *corev1.Pod) ([]*corev1.Pod, error) {
	if pod.DeletionTimestamp != nil {
		return nil, nil
	}
	all, err := g.of(ctx, pod)
	if err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for _, member := range all.members {
		if member.Annotations[g8s.AnnotationCheckpoint] == g8s.True && member.DeletionTimestamp == nil &&
			member.Spec.NodeName != "" && !gpu.HasEnded(member) {
			out = append(out, member)
		}
	}
	return out, nil
}
