package inventory

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// ReasonNodeNotReady is the reason of a pod whose node does not answer.
const ReasonNodeNotReady = "NodeNotReady"

// disruptions are what the reasons of the condition DisruptionTarget mean: who took a pod its place, though it was not at
// fault.
var disruptions = map[string]Trouble{
	corev1.PodReasonPreemptionByScheduler: {Reason: "Preempted", Message: "a job of higher priority takes its place"},
	corev1.PodReasonTerminationByKubelet:  {Reason: "Evicted", Message: "its node has no room for it or shuts down"},
	"EvictionByEvictionAPI":               {Reason: "Evicted", Message: "it was told to leave its node"},
	"DeletionByTaintManager":              {Reason: "Evicted", Message: "its node has a taint that it does not tolerate"},
	"DeletionByPodGC":                     {Reason: "NodeGone", Message: "its node is gone"},
}

// disruption says who took a pod its place; it is zero for a pod that nobody did that to.
func disruption(pod *corev1.Pod) Trouble {
	condition := conditionOf(pod, corev1.DisruptionTarget)
	if condition.Status != corev1.ConditionTrue {
		return Trouble{}
	}
	if known, ok := disruptions[condition.Reason]; ok {
		return known
	}
	return Trouble{Reason: condition.Reason, Message: condition.Message}
}

// leaving says why a pod that is deleted is, and why it may not go.
func leaving(pod *corev1.Pod) Trouble {
	if isLost(pod) {
		return Trouble{Reason: ReasonNodeNotReady, Message: fmt.Sprintf(
			"node %s does not answer, and Kubernetes waits until it is certain that the pod has ended", pod.Spec.NodeName)}
	}
	return disruption(pod)
}

// isLost reports whether a pod is on a node that does not answer. Kubernetes then calls the pod not ready, without a
// reason, which kubelets always give.
func isLost(pod *corev1.Pod) bool {
	ready := conditionOf(pod, corev1.PodReady)
	return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning && ready.Status == corev1.ConditionFalse && ready.Reason == ""
}

// lost is the trouble of a pod that is.
func lost(pod *corev1.Pod) Trouble {
	return Trouble{Reason: ReasonNodeNotReady, Message: fmt.Sprintf(
		"node %s does not answer, and whether the pod still runs is not known", pod.Spec.NodeName)}
}

// backOff is the trouble of a Job that is started, and has no pod: Kubernetes made one, and it has ended.
func backOff(job *batchv1.Job) Trouble {
	if job.Status.StartTime == nil {
		return Trouble{}
	}
	return Trouble{Reason: reasonNoPods, Message: "its pod has ended, and Kubernetes starts the next one after a while: " +
		"10 seconds at first, then twice as long each time"}
}
