package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// keeperGone wakes pods that the anti-affinity of another one kept from nodes. No plugin is asked: the hint of InterPodAffinity
// looks at the anti-affinity of the pod that waits alone, and leaves these to wait for five minutes.
var keeperGone = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "KeeperGone"}

// freed tells which pods a pod kept from nodes that has gone from its own, by its required anti-affinity; nil where it kept none.
func freed(before, after any) func(*corev1.Pod) bool {
	gone, ok := before.(*corev1.Pod)
	if !ok || gone == nil || gone.Spec.NodeName == "" || gone.Spec.Affinity == nil || gone.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	if now, ok := after.(*corev1.Pod); ok && now != nil {
		return nil
	}
	terms := gone.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) == 0 {
		return nil
	}
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool { return selects(&term, gone.Namespace, pod) })
	}
}

// selects reports whether a term of a pod of a namespace selects another pod. A selector of namespaces is taken to select all.
func selects(term *corev1.PodAffinityTerm, namespace string, pod *corev1.Pod) bool {
	if term.NamespaceSelector == nil && !slices.Contains(term.Namespaces, pod.Namespace) && (len(term.Namespaces) > 0 || pod.Namespace != namespace) {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}
