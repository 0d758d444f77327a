package coscheduling

import (
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// preemptionReason is the eviction reason for pods that leave for a gang, or for a single pod from whose quota they borrowed GPUs.
func preemptionReason(g gang, by *corev1.Pod) preemption.EvictionReason {
	note, counts := "preempted by the gang of pod "+by.Name, forGang
	if g.isSinglePod() {
		counts = forQuota
		note = "preempted by pod " + by.Name + ", whose namespace is guaranteed the GPUs"
	}
	return preemption.EvictionReason{Condition: corev1.PodReasonPreemptionByScheduler, Event: "Preempted", MetricLabel: counts, Preemptor: by, Note: note}
}

// releaseReason is the eviction reason for members of a partially bound gang that is released because there is no room for another member.
func releaseReason(without *corev1.Pod) preemption.EvictionReason {
	return preemption.EvictionReason{Condition: partial.ReleaseReason, Event: "Dissolved", MetricLabel: forPartialGang, Preemptor: without,
		Note: "ended since there is no room for pod " + without.Name + " and its gang starts as a whole or not at all"}
}
