package plugins

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/hint"
)

// antiAffinityGone activates pods that the anti-affinity of another pod kept from nodes. It asks no plugin: the queueing hint of
// InterPodAffinity only checks the anti-affinity of the waiting pod, and would leave these pods waiting for five minutes.
var antiAffinityGone = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "KeeperGone"}

// unblockedBy returns a predicate for the pods that a departed pod kept from nodes by its required anti-affinity; nil if there are none.
func unblockedBy(before, after any) func(*corev1.Pod) bool {
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
	read := hint.TermsOf(terms, gone.Namespace)
	return func(pod *corev1.Pod) bool { return hint.AnySelects(read, pod) }
}
