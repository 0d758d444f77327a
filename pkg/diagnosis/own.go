package diagnosis

import (
	"slices"

	"strconv"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/workload"
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

// waitsForItself reports whether no one but the job's own pods holds GPUs on the nodes that only lack free ones.
func (s *search) waitsForItself() bool {
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) == 1 && j.gpuReason.IsShortage() && len(sumHolders(s.withoutOwnPods(j.holders))) > 0 {
			return false
		}
	}
	return true
}

// describeSelfWait describes a job whose own pods hold all GPUs that its next pod waits for. Only tasks of an array and members that are replaced ever
// release them; replicas do not.
func (s *search) describeSelfWait(out *Finding, own int64) {
	job := &s.facts.Job
	out.Message = out.Message.Addf("; the job's own pods hold the other %d: it waits for itself", own)
	if workload.Kind(job.Kind).IsService() {
		placed := 0
		for i := range s.facts.Pods {
			if s.facts.Pods[i].Spec.NodeName != "" && isActive(&s.facts.Pods[i]) {
				placed++
			}
		}
		scale := gpuctlCommand("scale", job) + " --replicas " + strconv.Itoa(placed)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldReplicas, Value: strconv.Itoa(placed), Command: scale,
			Message: phrase.Textf("no replica ends by itself: ask for as many as there is room for: %s", scale)})
	} else {
		out.Steps = append(out.Steps, waitStep("wait until pods of this job end: their GPUs are for the next ones"))
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
	out.Steps = append(out.Steps, Step{Action: reason.AddNodes, Message: phrase.Textf("ask the administrators for more nodes in %s", s.poolText())})
}
