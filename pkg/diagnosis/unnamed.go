package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// isUnnamed reports whether a pod asks for GPUs and names no scheduler, so that Kubernetes' own places it.
func isUnnamed(pod *corev1.Pod) bool {
	request, err := gpu.RequestOf(pod)
	return pod.Spec.SchedulerName == corev1.DefaultSchedulerName && (err != nil || !request.IsZero())
}

// unnamedScheduler explains such a pod, and names a node that would take it with our scheduler.
func unnamedScheduler(f *Facts, pod *corev1.Pod) Finding {
	out := Finding{
		Cause: reason.OtherScheduler,
		Message: phrase.Textf("the pod names no scheduler, so %s places it, which chooses no GPUs; gpu-agent starts no container whose GPUs were not chosen",
			corev1.DefaultSchedulerName),
	}
	step := Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.schedulerName", Value: names.SchedulerName,
		Message: phrase.Textf("set schedulerName: %s in the pod, or in the template it is made of, and create it again", names.SchedulerName)}
	if node := nodeWithRoom(f, pod); node != nil {
		step.Name = node.Name
		step.Message = step.Message.Addf("; node %s of pool %s has room for it", node.Name, gpu.PoolOf(node))
	}
	out.Steps = []Step{step}
	return out
}

// nodeWithRoom is the first node that would currently take a pending pod, nil if none would or if unknown.
func nodeWithRoom(f *Facts, pod *corev1.Pod) *corev1.Node {
	if pod.Spec.NodeName != "" || !f.seesNodes() {
		return nil
	}
	s, err := newSearch(f, pod)
	if err != nil || len(s.judgeNodes()) > 0 {
		return nil
	}
	at := slices.IndexFunc(s.judged, func(j judgedNode) bool { return len(j.blockers) == 0 })
	if at < 0 {
		return nil
	}
	return s.judged[at].node
}

// withoutOtherScheduler removes the findings that are caused by another scheduler.
func withoutOtherScheduler(findings []Finding) []Finding {
	return slices.DeleteFunc(withoutRoomNow(findings), func(f Finding) bool {
		return f.Cause == reason.OtherScheduler || f.Cause == reason.SchedulerDown || f.Cause == reason.RejectedByScheduler
	})
}
