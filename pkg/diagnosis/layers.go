package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainHeldJob explains a job whose pods are not to be created yet: it is incomplete, paused, waits for other jobs, is held by Kueue, or comes after
// another gang for a quota. A job can be held by several of these at once.
func explainHeldJob(f *Facts) []Finding {
	job := &f.Job
	var out []Finding
	if job.Reason == inventory.ReasonIncomplete {
		out = append(out, explainIncompleteJob(job))
	}
	if job.Status == inventory.StatusSuspended {
		out = append(out, explainSettledJob(job))
	}
	if job.Reason == inventory.ReasonWaitsForJobs || job.Status == inventory.StatusSuspended && len(job.WaitsFor) > 0 {
		out = append(out, waitsForJobs(f))
	}
	if job.Reason == inventory.ReasonHeldByKueue {
		out = append(out, explainHeldByKueue(f))
	}
	if job.QuotaBehind != "" {
		out = append(out, explainBehindGang(job))
	}
	return out
}

// explainBehindHold explains what keeps the pods of a held job from running once they are to be created, so that the remedy of the hold leads to no
// further surprise.
func explainBehindHold(f *Facts, held []Finding) []Finding {
	stopped := explainStoppedScheduler(f)
	if slices.ContainsFunc(f.Pods, func(pod corev1.Pod) bool { return isActive(&pod) }) {
		return stopped // the pods were created before, and show for themselves
	}
	out := slices.Concat(explainUnknownClass(f), explainExceededBounds(f))
	if says := jobPoolDenial(f); len(says) > 0 {
		out = append(singleFinding(explainPoolDenied(f, says.Addf(", so that the API server refuses its pods"))), out...)
	}
	if hasCause(held, reason.QuotaExceeded) {
		out = withoutCause(out, reason.QuotaExceeded) // it has been said
	}
	if isUnobserved(f) {
		out = append(out, explainNotCreated(f))
	}
	next := explainNextPod(f)
	if len(stopped) > 0 {
		next = withoutRoomCauses(next)
	}
	return slices.Concat(out, stopped, next)
}

// isUnobserved reports whether Kubernetes' own controllers should have seen the job by now and have not. A Deployment is left out, of which every change
// is unobserved for a moment, and no one can say since when.
func isUnobserved(f *Facts) bool {
	return f.Job.Object.Kind == kindJob && !f.Job.ControllerObserved && f.Cluster.Now.Sub(f.Job.Created) > slowController
}

// explainNextPod explains what keeps the next pod of a job from a node, as its controller would create it.
func explainNextPod(f *Facts) []Finding {
	template := templatePod(f)
	if template == nil || !f.seesNodes() {
		return nil
	}
	out, _ := explainSearchedPod(f, template, "")
	out = withGPUQuotas(f, template, out)
	return withoutRoomNow(out)
}

// failingCauses are the causes of containers that hold their GPUs and do not run, whatever time passes.
var failingCauses = []reason.Cause{
	reason.ImagePull, reason.ContainerConfig, reason.ContainerStart, reason.VolumeMount, reason.Crashing, reason.OutOfMemory,
}

// explainFailingPods explains the pods that have a node and cannot run there, each cause once. lost are the findings about nodes, whose pods need no other
// explanation.
func explainFailingPods(f *Facts, lost []Finding) []Finding {
	var out []Finding
	counts, gpus := map[reason.Cause]int{}, map[reason.Cause]int64{}
	for i := range f.Pods {
		pod := &f.Pods[i]
		onLost := slices.ContainsFunc(lost, func(l Finding) bool { return slices.Contains(l.Examples, pod.Spec.NodeName) })
		if pod.Spec.NodeName == "" || !isActive(pod) || isReady(pod) || onLost {
			continue
		}
		finding := explainNotStarted(f, pod)
		if !slices.Contains(failingCauses, finding.Cause) {
			continue
		}
		counts[finding.Cause]++
		gpus[finding.Cause] += heldGPUs(pod)
		if !hasCause(out, finding.Cause) {
			out = append(out, finding)
		}
	}
	for i := range out {
		if held := gpus[out[i].Cause]; held > 0 && f.Job.Desired > 1 {
			out[i].Message = out[i].Message.Addf("; pods of the job in this state: %d, which hold %s meanwhile", counts[out[i].Cause], gpuWord(held))
		}
	}
	return out
}

// heldGPUs is how many GPUs a pod holds on its node.
func heldGPUs(pod *corev1.Pod) int64 {
	var sum int64
	for _, holder := range sumHolders([]*corev1.Pod{pod}) {
		sum += holder.GPUs
	}
	return sum
}

// explainPlacedPods explains a job whose pods all have nodes: those that cannot run, or else the one that is not ready.
func explainPlacedPods(f *Facts, pod *corev1.Pod) []Finding {
	out := explainFailingPods(f, nil)
	if next := explainNotStarted(f, pod); !hasCause(out, next.Cause) && (len(out) == 0 || next.Cause != reason.Starting) {
		out = append(out, next)
	}
	return out
}

// explainUnknownClass explains a priority class that the cluster does not have, before any pod is refused for it.
func explainUnknownClass(f *Facts) []Finding {
	pod := templatePod(f)
	if pod == nil || len(f.priorityClasses()) == 0 || pod.Spec.PriorityClassName == "" || pod.Spec.Priority != nil {
		return nil
	}
	return singleFinding(explainNoPriorityClass(f, []string{"", pod.Spec.PriorityClassName}))
}
