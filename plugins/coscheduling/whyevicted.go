package coscheduling

import corev1 "k8s.io/api/core/v1"

// reasonIncomplete is the DisruptionTarget reason for members of a partially bound gang.
const reasonIncomplete = "IncompleteGang"

// preemptionReason is the eviction reason for pods that leave for a gang, or for a single pod from whose quota they borrowed GPUs.
func preemptionReason(g gang, by *corev1.Pod) evictionReason {
	note, counts := "preempted by the gang of pod "+by.Name, forGang
	if g.isSinglePod() {
		counts = forQuota
		note = "preempted by pod " + by.Name + ", whose namespace is guaranteed the GPUs"
	}
	return evictionReason{condition: corev1.PodReasonPreemptionByScheduler, event: "Preempted", metricLabel: counts, preemptor: by, note: note}
}

// releaseReason is the eviction reason for members of a partially bound gang that is released because there is no room for another member.
func releaseReason(without *corev1.Pod) evictionReason {
	return evictionReason{condition: reasonIncomplete, event: "Dissolved", metricLabel: forPartialGang, preemptor: without,
		note: "ended since there is no room for pod " + without.Name + " and its gang starts as a whole or not at all"}
}
