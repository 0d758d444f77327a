package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// eviction is a pod, or pods of one gang, that had to leave for others at about the same time.
type eviction struct {
	at       *Event // of the first of them
	pods     []string
	nodes    []string
	priority int32
	// started says that one of those for whom they left has begun in the place of one of them.
	started bool
}

// InVain returns who had to leave for others though none of those started in their place within a time: a pod of higher priority, or of
// another namespace, which is guaranteed what they borrowed. Pods of a gang leave together, so that it is enough that one of their nodes is
// taken. What happened less than that time before the end of the history is not judged.
func InVain(h History, within time.Duration) []Violation {
	var all []*eviction
	seen, bound := map[string]bool{}, map[string]bool{}
	for i := range h {
		pod := h[i].Pod
		if pod == nil {
			continue
		}
		uid := string(pod.UID)
		if pod.Spec.NodeName != "" && !bound[uid] {
			bound[uid] = true
			for _, e := range all {
				e.started = e.started || e.isFollowedBy(&h[i], within)
			}
		}
		if isEvicted(h[i].Type, pod) && !seen[uid] {
			seen[uid] = true
			all = note(all, &h[i], within)
		}
	}
	var violations []Violation
	for _, e := range all {
		if !e.started && h[len(h)-1].Seen.Sub(e.at.Seen) > within {
			violations = append(violations, Violation{Revision: e.at.Revision, Rule: Vain, Node: e.nodes[0], Pods: e.pods, Detail: fmt.Sprintf("within %s", within)})
		}
	}
	slices.SortStableFunc(violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return violations
}

// isEvicted reports whether a scheduler had a pod leave its node for others.
func isEvicted(kind watch.EventType, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || kind != watch.Deleted && pod.DeletionTimestamp == nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// note adds a pod that leaves to those of its gang that left shortly before, or as one for itself.
func note(all []*eviction, event *Event, within time.Duration) []*eviction {
	pod := event.Pod
	if pod.Labels[names.LabelPodGroup] != "" {
		for _, e := range all {
			first := e.at.Pod
			if first.Namespace == pod.Namespace && first.Labels[names.LabelPodGroup] == pod.Labels[names.LabelPodGroup] && event.Seen.Sub(e.at.Seen) <= within {
				e.pods, e.nodes = append(e.pods, nameOf(pod)), append(e.nodes, pod.Spec.NodeName)
				return all
			}
		}
	}
	return append(all, &eviction{at: event, pods: []string{nameOf(pod)}, nodes: []string{pod.Spec.NodeName}, priority: priorityOf(pod)})
}

// isFollowedBy reports whether a pod that has come to a node is one of those that others left for.
func (e *eviction) isFollowedBy(event *Event, within time.Duration) bool {
	pod := event.Pod
	return event.Seen.Sub(e.at.Seen) <= within && slices.Contains(e.nodes, pod.Spec.NodeName) &&
		(priorityOf(pod) > e.priority || pod.Namespace != e.at.Pod.Namespace)
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
