// Package queue is the order of waiting pods: which comes before which, and what is remembered of pods as they entered the queue, since what the
// queue compares for a pod in it must not change.
package queue

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

// SortKey is what the queue compares for a pod, or for a PodGroup of Kubernetes.
type SortKey struct {
	Position
	// Pod is nil for a PodGroup of Kubernetes.
	Pod      *corev1.Pod
	Priority int32
	// Group is the name of the pod's group, "" for none.
	Namespace, Group, Name string
}

// ComesBefore reports whether a pod is tried before another one: by priority, then because its gang has begun, as a replacement, as the called pod, and
// by time. Members of a gang come in the order of their indexes.
func (k SortKey) ComesBefore(other SortKey, called *corev1.Pod) bool {
	if k.Priority != other.Priority {
		return k.Priority > other.Priority
	}
	if k.HasBegun != other.HasBegun {
		return k.HasBegun
	}
	if k.IsReplacement != other.IsReplacement {
		return k.IsReplacement
	}
	if called != nil {
		if one, two := k.Pod == called, other.Pod == called; one != two {
			return one
		}
	}
	order := cmp.Or(k.At.Compare(other.At), cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Group, other.Group))
	if order == 0 && k.Group != "" {
		order = placement.CompareIndexes(k.Pod, other.Pod)
	}
	return cmp.Or(order, cmp.Compare(k.Name, other.Name)) < 0
}
