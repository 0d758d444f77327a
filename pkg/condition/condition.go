// Package condition finds the conditions of pods, nodes and Jobs. Kubernetes' own functions for that link clients of all of Kubernetes, which gpuctl
// and the agent do without.
package condition

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// OfPod returns a pointer to a condition of a pod, nil if it has none of that type.
func OfPod(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// OfNode returns a pointer to a condition of a node, nil if it has none of that type.
func OfNode(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// TrueOfPod returns a pointer to a condition of a pod that is true, nil otherwise.
func TrueOfPod(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	if c := OfPod(pod, kind); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// IsNodeTrue reports whether a condition of a node is true.
func IsNodeTrue(node *corev1.Node, kind corev1.NodeConditionType) bool {
	c := OfNode(node, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// TrueOfJob returns a pointer to the first condition of a Job that is true and of one of these types, nil for none.
func TrueOfJob(job *batchv1.Job, kinds ...batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		for _, kind := range kinds {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				return c
			}
		}
	}
	return nil
}
