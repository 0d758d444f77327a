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

// StartsWithin is how soon one of those for whom others leave has to start, by [Check].
const StartsWithin = time.Minute

// eviction is a pod, or pods of one gang, that had to leave for others at about the same time.
type eviction struct {
	at       *Event // of the first of them
	pods     []string
	nodes    []string
	priority int32
	// there are those that have not left yet, and away is when the last one has.
	there map[string]bool
	away  time.Time
	// started says that one of those for whom they left has begun in the place of one of them, or wants none any more.
	started bool
}

// InVain returns who had to leave for others though none of those started in their place within a time after the last one was gone: a pod of
// higher priority, or of another namespace, which is guaranteed what they borrowed. Pods of a gang leave together, so that it is enough that
// one of their nodes is taken; or that the pod for which it was kept starts elsewhere, or is deleted, by then. What happened less than that time
// before the end of the history is not judged, nor who has not gone.
func InVain(h History, within time.Duration) []Violation {
	v := vain{within: within, of: map[string]*eviction{}, bound: map[string]bool{}, kept: map[string]string{}}
	for i := range h {
		if h[i].Pod != nil {
			v.apply(&h[i])
		}
	}
	var violations []Violation
	for _, e := range v.all {
		if !e.started && len(e.there) == 0 && h[len(h)-1].Seen.Sub(e.away) > within {
			violations = append(violations, Violation{Revision: e.at.Revision, Rule: Vain, Node: e.nodes[0], Pods: e.pods, Detail: fmt.Sprintf("within %s", within)})
		}
	}
	slices.SortStableFunc(violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return violations
}

// vain follows who leaves for others.
type vain struct {
	within time.Duration
	all    []*eviction
	// of is by which eviction a pod leaves, bound says which pods have had a node, kept is the node that others leave for a pod which waits.
	of    map[string]*eviction
	bound map[string]bool
	kept  map[string]string
}

func (v *vain) apply(event *Event) {
	v.follow(event)
	pod, uid := event.Pod, string(event.Pod.UID)
	if isEvicted(event.Type, pod) && v.of[uid] == nil {
		v.note(event)
	}
	if e := v.of[uid]; e != nil && e.there[uid] && (event.Type == watch.Deleted || finished(pod)) {
		delete(e.there, uid)
		e.away = event.Seen
	}
}

// follow notes where a pod is to start, starts, or will not.
func (v *vain) follow(event *Event) {
	pod, uid := event.Pod, string(event.Pod.UID)
	switch {
	case pod.Spec.NodeName == "" && (event.Type == watch.Deleted || pod.DeletionTimestamp != nil):
		v.startsAt(event, v.kept[uid]) // it wants none any more
	case pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "":
		v.kept[uid] = pod.Status.NominatedNodeName
	case pod.Spec.NodeName != "" && !v.bound[uid]:
		v.bound[uid] = true
		v.startsAt(event, pod.Spec.NodeName, v.kept[uid])
	}
}

// startsAt notes that a pod begins in one of some places, or gives it up.
func (v *vain) startsAt(event *Event, places ...string) {
	for _, e := range v.all {
		inTime := len(e.there) > 0 || event.Seen.Sub(e.away) <= v.within
		if inTime && e.isFor(event.Pod) && slices.ContainsFunc(e.nodes, func(node string) bool { return slices.Contains(places, node) }) {
			e.started = true
		}
	}
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
func (v *vain) note(event *Event) {
	pod, uid := event.Pod, string(event.Pod.UID)
	var with *eviction
	if pod.Labels[names.LabelPodGroup] != "" {
		for _, e := range v.all {
			first := e.at.Pod
			if first.Namespace == pod.Namespace && first.Labels[names.LabelPodGroup] == pod.Labels[names.LabelPodGroup] && event.Seen.Sub(e.at.Seen) <= v.within {
				with = e
				break
			}
		}
	}
	if with == nil {
		with = &eviction{at: event, priority: priorityOf(pod), there: map[string]bool{}}
		v.all = append(v.all, with)
	}
	with.pods, with.nodes = append(with.pods, nameOf(pod)), append(with.nodes, pod.Spec.NodeName)
	with.there[uid], v.of[uid] = true, with
}

// isFor reports whether a pod is one of those that others left for.
func (e *eviction) isFor(pod *corev1.Pod) bool {
	return priorityOf(pod) > e.priority || pod.Namespace != e.at.Pod.Namespace
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
