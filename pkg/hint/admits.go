package hint

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// Admits reports whether a node is open to a pod by selector, required node affinity and taints. Malformed constraints may match. A hint runs
// for each waiting pod while the queue is locked, so nothing is parsed: Kubernetes' own matching takes a hundred times as long for an affinity
// of 100 terms.
func Admits(pod *corev1.Pod, node *corev1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if got, ok := node.Labels[key]; !ok || got != value {
			return false
		}
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil && !slices.ContainsFunc(required.NodeSelectorTerms,
			func(term corev1.NodeSelectorTerm) bool { return meetsTerm(&term, node) }) {
			return false
		}
	}
	_, kept := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, keepsOut, true)
	return !kept && (!node.Spec.Unschedulable || corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &cordoned, true))
}

var cordoned = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func keepsOut(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// meetsTerm reports whether a node meets all requirements of a term. No node meets an empty term.
func meetsTerm(term *corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for i := range term.MatchExpressions {
		requirement := &term.MatchExpressions[i]
		if value, ok := node.Labels[requirement.Key]; !meetsRequirement(requirement, value, ok) {
			return false
		}
	}
	for i := range term.MatchFields { // metadata.name is the only one
		if !meetsRequirement(&term.MatchFields[i], node.Name, true) {
			return false
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0
}

func meetsRequirement(r *corev1.NodeSelectorRequirement, value string, ok bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return ok && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return ok
	case corev1.NodeSelectorOpDoesNotExist:
		return !ok
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return ok && isWithinBound(r, value)
	}
	return true
}

func isWithinBound(r *corev1.NodeSelectorRequirement, value string) bool {
	if len(r.Values) != 1 {
		return true
	}
	got, err := strconv.ParseInt(value, 10, 64)
	bound, unread := strconv.ParseInt(r.Values[0], 10, 64)
	switch {
	case unread != nil:
		return true
	case err != nil:
		return false
	case r.Operator == corev1.NodeSelectorOpGt:
		return got > bound
	}
	return got < bound
}
