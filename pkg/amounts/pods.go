package amounts

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests returns what a pod takes of a node, including the overhead of its runtime class, as kube-scheduler and ResourceQuotas count it. Pod-level
// requests come before those of containers. During an in-place resize the larger of the new request and what the node has allocated counts.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, countOptions(pod))
}

// Limits returns the limits of a pod, counted the same way.
func Limits(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodLimits(pod, countOptions(pod))
}

// countOptions reads the status of pods on nodes only: a waiting pod has none, and looking for it doubles the cost.
func countOptions(pod *corev1.Pod) resourcehelper.PodResourcesOptions {
	runs := pod.Spec.NodeName != ""
	return resourcehelper.PodResourcesOptions{UseStatusResources: runs, InPlacePodLevelResourcesVerticalScalingEnabled: runs}
}
