package recovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Bereft are the members of a gang that cannot work without the ones that they lose, and are to end with them: all that
// still run, if with those that are done they are fewer than the gang needs. They would wait for the lost ones until their own timeout, ten minutes
// with NCCL, then fail, and pay a retry each.
//
// members are the pods of the gang, and dead the names of the nodes whose pods are lost. A member that may not be moved
// stays.
func Bereft(members []*corev1.Pod, dead []string, minMember int) []*corev1.Pod {
	var left []*corev1.Pod
	done := 0
	for _, pod := range members {
		if pod.Status.Phase == corev1.PodSucceeded {
			done++
		}
		if !gpu.HasEnded(pod) && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && !slices.Contains(dead, pod.Spec.NodeName) {
			left = append(left, pod)
		}
	}
	if len(left)+done >= minMember {
		return nil
	}
	return slices.DeleteFunc(left, func(pod *corev1.Pod) bool { return eviction.HoldOf(pod, eviction.LostMembers) != "" })
}

// ReadPodGroup reads a PodGroup as it is committed, and how many members it needs; nil where there is none, or where the scheduler could not read
// it either.
func ReadPodGroup(ctx context.Context, live client.Reader, namespace, name string) (*unstructured.Unstructured, int64, error) {
	group := &unstructured.Unstructured{}
	group.SetAPIVersion(g8s.PodGroupAPIVersion)
	group.SetKind(g8s.PodGroupKind)
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, group)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading PodGroup %s/%s: %w", namespace, name, err)
	}
	minMember, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	if err != nil {
		return nil, 0, nil //nolint:nilerr // the scheduler cannot read such a group either
	}
	return group, minMember, nil
}

// GangOf are the members of a pod's gang, as the cache has them, and how many of them it needs, as is committed; none where it is in no
// gang, or nobody says how many that needs.
func GangOf(ctx context.Context, cache, live client.Reader, pod *corev1.Pod) (members []*corev1.Pod, least int, err error) {
	name, owner := pod.Labels[g8s.LabelPodGroup], metav1.GetControllerOf(pod)
	if name == "" || owner == nil {
		return nil, 0, nil
	}
	group, minMember, err := ReadPodGroup(ctx, live, pod.Namespace, name)
	if group == nil {
		return nil, 0, err
	}
	var list corev1.PodList
	if err := cache.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels{g8s.LabelPodGroup: name}); err != nil {
		return nil, 0, fmt.Errorf("listing the members of %s/%s: %w", pod.Namespace, name, err)
	}
	several := group.GetAnnotations()[g8s.AnnotationSeveralOwners] == g8s.True
	for i := range list.Items {
		if member := &list.Items[i]; several || metav1.IsControlledBy(member, &metav1.ObjectMeta{UID: owner.UID}) {
			members = append(members, member)
		}
	}
	return members, int(minMember), nil
}

// IsNewer reports whether a pod was made after another was told to leave: it was started anew then, and goes on.
func IsNewer(pod, leaving *corev1.Pod) bool {
	told := leaving.DeletionTimestamp.Time
	if grace := leaving.DeletionGracePeriodSeconds; grace != nil {
		told = told.Add(-time.Duration(*grace) * time.Second)
	}
	return pod.CreationTimestamp.After(told)
}

// IsOurs reports whether a pod is one that recovery is for: it was placed by our scheduler, and is not bound to its node
// as those of DaemonSets are.
func IsOurs(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Spec.SchedulerName == g8s.SchedulerName && owner != nil && owner.Kind != "DaemonSet" && owner.Kind != "Node"
}
