package plugins

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/hint"
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
	read := hint.TermsOf(terms, gone.Namespace)
	return func(pod *corev1.Pod) bool { return hint.AnySelects(read, pod) }
}
