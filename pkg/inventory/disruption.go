package inventory

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// reasonNodeLost is the reason of a pod whose node does not answer.
const reasonNodeLost = string(reason.NodeLost)

// disruptions explain the reasons of the condition DisruptionTarget: what removed the pod, which was not at fault.
var disruptions = map[string]Trouble{
	corev1.PodReasonPreemptionByScheduler: {Reason: string(reason.Preempted), Message: "a job of higher priority takes its place"},
	corev1.PodReasonTerminationByKubelet:  {Reason: string(reason.Evicted), Message: "its node has no room for it or shuts down"},
	"EvictionByEvictionAPI":               {Reason: string(reason.Evicted), Message: "it was told to leave its node"},
	"DeletionByTaintManager":              {Reason: string(reason.Evicted), Message: "its node has a taint that it does not tolerate"},
	g8s.ReasonRejectedByKubelet:           {Reason: string(reason.Evicted), Message: "its node had no gpu-agent that serves, and rejected it"},
	"DeletionByPodGC":                     {Reason: string(reason.Evicted), Message: "its node is gone"},
}

// podDisruption explains what removed a pod; it is zero for a pod without disruption.
func podDisruption(pod *corev1.Pod) Trouble {
	condition := podCondition(pod, corev1.DisruptionTarget)
	if condition.Status != corev1.ConditionTrue {
		return Trouble{}
	}
	if known, ok := disruptions[condition.Reason]; ok {
		return known
	}
	return Trouble{Reason: condition.Reason, Message: condition.Message}
}

// terminatingTrouble explains why a pod is deleted, and why it may not terminate.
func terminatingTrouble(pod *corev1.Pod) Trouble {
	if isLost(pod) {
		return Trouble{Reason: reasonNodeLost, Message: fmt.Sprintf(
			"node %s does not answer, and Kubernetes waits until it is certain that the pod has ended", pod.Spec.NodeName)}
	}
	return podDisruption(pod)
}

// isLost reports whether a pod is on a node that does not respond. Kubernetes then marks the pod as not ready without a reason, while kubelets always
// give one.
func isLost(pod *corev1.Pod) bool {
	ready := podCondition(pod, corev1.PodReady)
	return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning && ready.Status == corev1.ConditionFalse && ready.Reason == ""
}

// lostPodTrouble is the trouble of a pod that is.
func lostPodTrouble(pod *corev1.Pod) Trouble {
	return Trouble{Reason: reasonNodeLost, Message: fmt.Sprintf(
		"node %s does not answer, and whether the pod still runs is not known", pod.Spec.NodeName)}
}

// backOff is the trouble of a started Job without a pod: Kubernetes created one, and it has ended.
func backOff(job *batchv1.Job) Trouble {
	if job.Status.StartTime == nil {
		return Trouble{}
	}
	return Trouble{Reason: reasonNoPods, Message: "its pod has ended, and Kubernetes starts the next one after a while: " +
		"10 seconds at first, then twice as long each time"}
}
