package amounts

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests is what a pod takes of a node, with the overhead of its runtime class, as kube-scheduler and its quotas count it: what the pod asks for
// as a whole where it does (pod-level resources), and while it is being resized in place what its node has allocated to it, where that is more.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, options(pod))
}

// Limits is what a pod is limited to, counted alike.
func Limits(pod *corev1.Pod) corev1.ResourceList { return resourcehelper.PodLimits(pod, options(pod)) }

// options has the status of a pod read that a node runs: one that waits has none, and reading it would take twice as long.
func options(pod *corev1.Pod) resourcehelper.PodResourcesOptions {
	runs := pod.Spec.NodeName != ""
	return resourcehelper.PodResourcesOptions{UseStatusResources: runs, InPlacePodLevelResourcesVerticalScalingEnabled: runs}
}
