package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// isAwaitingRetry reports whether a job waits only for its next attempt: a pod failed, the others run, and Kubernetes creates another one after a back-off
// that grows with each failure.
func isAwaitingRetry(f *Facts, pod *corev1.Pod) bool {
	if f.Job.Retries == nil || f.Job.Refusal != "" || pod != nil && podCondition(pod, corev1.PodReady).Status != corev1.ConditionTrue {
		return false
	}
	_, failed := lastFailed(&f.Job)
	return failed
}

// lastFailed returns the pod of a job that failed last.
func lastFailed(job *inventory.JobDetail) (inventory.Pod, bool) {
	failed := slices.DeleteFunc(slices.Clone(job.Pods), func(pod inventory.Pod) bool { return pod.Phase != string(corev1.PodFailed) })
	if len(failed) == 0 {
		return inventory.Pod{}, false
	}
	return slices.MaxFunc(failed, func(a, b inventory.Pod) int { return a.Created.Compare(b.Created) }), true
}

func explainRetry(job *inventory.JobDetail) Finding {
	last, _ := lastFailed(job)
	var times int32
	for _, pod := range job.Pods {
		sameRank := pod.Rank == nil || last.Rank == nil || *pod.Rank == *last.Rank
		if pod.Phase == string(corev1.PodFailed) && sameRank {
			times++
		}
	}
	next := phrase.Textf("; it is not tried again")
	if times <= *job.Retries {
		next = phrase.Textf("; retry %d of %d comes after a pause", times, *job.Retries)
	}
	out := Finding{Cause: reason.Retrying, Message: withDetail(phrase.Textf("pod %s has failed", last.Name), last.Message).Add(next)}
	if isOutOfMemory(last.Trouble) {
		out.Steps = append(out.Steps, moreMemory())
	} else {
		out.Steps = append(out.Steps, waitStep("wait for the next try"))
	}
	out.Steps = append(out.Steps, logsStep(job), Step{Action: reason.Cancel, Command: gpuctlCommand("cancel", job),
		Message: phrase.Textf("if it cannot succeed, end it: %s", gpuctlCommand("cancel", job))})
	return out
}
