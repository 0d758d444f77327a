package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// isOwn reports whether a pod on a node belongs to the job, such as a task of the same array. A simulated job has none.
func (f *Facts) isOwn(pod *corev1.Pod) bool {
	return !f.Simulated && pod.Namespace == f.Job.Namespace &&
		slices.ContainsFunc(f.Pods, func(own corev1.Pod) bool { return own.Name == pod.Name })
}

// holdsNodes reports whether pods of the job have nodes and have not ended.
func (f *Facts) holdsNodes() bool {
	return !f.Simulated && slices.ContainsFunc(f.Pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" && isActive(&pod) })
}

// withoutOwnPods removes the job's own pods from a list. A job neither waits for its own pods nor preempts them.
func (s *search) withoutOwnPods(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), s.facts.isOwn)
}

// ownGPUs is how many GPUs the job's own pods hold on the nodes that a cause blocks.
func (s *search) ownGPUs(cause reason.Cause) int64 {
	var sum int64
	for i := range s.judged {
		if !s.judged[i].isBlockedBy(cause) {
			continue
		}
		own := slices.DeleteFunc(slices.Clone(s.judged[i].holders), func(pod *corev1.Pod) bool { return !s.facts.isOwn(pod) })
		for _, holder := range sumHolders(own) {
			sum += holder.GPUs
		}
	}
	return sum
}
