package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// aside is the finding that a pod of the job was evicted from its node.
type aside struct {
	Finding
	// holds is true while the preemptor still exists.
	holds bool
}

// disruption is the eviction of one pod of the job.
type disruption struct {
	pod, node string
	at        time.Time
	// reason comes from the pod's condition DisruptionTarget, or from the event that has more detail.
	reason string
	// by is the preemptor as namespace/name, "" if unknown.
	by string
	// message is Kubernetes' own.
	message string
}

// pushedAside describes the last eviction, if it is the reason that the job has to start again. The pod records it in its condition. After the pod is
// deleted, its event does.
func pushedAside(f *Facts) (aside, bool) {
	last, ok := lastDisruption(f)
	if !ok {
		return aside{}, false
	}
	out := aside{}
	var where phrase.Text
	if last.node != "" {
		where = phrase.Of(" node %s", last.node)
	}
	switch last.reason {
	case corev1.PodReasonPreemptionByScheduler:
		who, holds := f.whoIs(last.by)
		out.Cause, out.holds = reason.Preempted, holds
		out.Says = phrase.Of("preempted by %s %s: pod %s had to leave%s for a job of higher priority", who, f.since(last.at), last.pod, where)
		if f.reclaims(last.by) {
			out.Says = phrase.Of("preempted by %s %s: pod %s had to leave%s, as its GPUs were borrowed from who is guaranteed them by a GPUQuota", who, f.since(last.at), last.pod, where)
		}
		out.Steps = []Step{waiting("wait until that job ends: the job starts again by itself")}
	default:
		out.Cause = reason.Evicted
		out.Says = phrase.Of("pod %s was told to leave%s %s: %s", last.pod, where, f.since(last.at), whyLeft(last))
		out.Steps = []Step{waiting("wait: Kubernetes makes another pod, which starts where there is room")}
	}
	return out, true
}

// whyLeft names what evicted a pod.
func whyLeft(last disruption) phrase.Text {
	switch last.reason {
	case "DeletionByTaintManager":
		return phrase.Of("its node was not ready for too long, or got a taint that it does not tolerate")
	case g8s.EventMovedFromBrokenGPU:
		return phrase.Of("a GPU that it held, or one of its gang's, was found broken")
	case "EvictionByEvictionAPI":
		return phrase.Of("it was evicted, as kubectl drain and gpuctl advise defrag do")
	case "DeletionByPodGC":
		return phrase.Of("its node is gone")
	case corev1.PodReasonTerminationByKubelet:
		return phrase.Of("its node ran short of memory or disk, or was shut down")
	}
	return phrase.Quote(strings.TrimRight(cmp.Or(last.message, last.reason), " ."))
}

// lastDisruption finds the most recently evicted pod of the job.
func lastDisruption(f *Facts) (disruption, bool) {
	var all []disruption
	for i := range f.Pods {
		pod := &f.Pods[i]
		condition := conditionOf(pod, corev1.DisruptionTarget)
		if condition.Status == corev1.ConditionTrue && !lives(pod) {
			why := condition.Reason
			if why == "EvictionByEvictionAPI" && movedFromBroken(f.Job.Events, pod.Name) {
				why = g8s.EventMovedFromBrokenGPU
			}
			all = append(all, disruption{pod: pod.Name, node: pod.Spec.NodeName, at: condition.LastTransitionTime.Time,
				reason: why, message: condition.Message, by: preemptorIn(f.Job.Events, pod.Name)})
		}
	}
	for _, event := range f.Job.Past {
		switch event.Reason {
		case "Preempted":
			all = append(all, disruption{pod: podIn(event), at: event.Last, reason: corev1.PodReasonPreemptionByScheduler, by: event.Related})
		case "TaintManagerEviction":
			all = append(all, disruption{pod: podIn(event), at: event.Last, reason: "DeletionByTaintManager"})
		case g8s.EventMovedFromBrokenGPU:
			all = append(all, disruption{pod: podIn(event), at: event.Last, reason: event.Reason})
		}
	}
	if len(all) == 0 {
		return disruption{}, false
	}
	return slices.MaxFunc(all, func(a, b disruption) int { return a.at.Compare(b.at) }), true
}

func podIn(event inventory.Event) string { return strings.TrimPrefix(event.Object, "Pod/") }

func movedFromBroken(events []inventory.Event, pod string) bool {
	return slices.ContainsFunc(events, func(e inventory.Event) bool { return e.Reason == g8s.EventMovedFromBrokenGPU && podIn(e) == pod })
}

func preemptorIn(events []inventory.Event, pod string) string {
	for _, event := range slices.Backward(events) {
		if event.Reason == "Preempted" && podIn(event) == pod {
			return event.Related
		}
	}
	return ""
}

// whoIs names the job of a pod and reports whether the pod still holds its place.
func (f *Facts) whoIs(pod string) (who phrase.Text, holds bool) {
	if pod == "" {
		return phrase.Of("a pod of higher priority"), false
	}
	namespace, name, _ := strings.Cut(pod, "/")
	is := func(other corev1.Pod) bool { return other.Namespace == namespace && other.Name == name }
	holds = slices.ContainsFunc(f.Cluster.Pods, is)
	all := slices.Concat(f.Cluster.Pods, f.Preemptors)
	if at := slices.IndexFunc(all, is); at >= 0 {
		return holderOf(&all[at]).name(), holds
	}
	return phrase.Of("pod %s of namespace %s", name, namespace), holds
}

// reclaims reports whether a preemptor had no higher priority than its victim of the job, which only happens with quotas.
func (f *Facts) reclaims(pod string) bool {
	namespace, name, _ := strings.Cut(pod, "/")
	all := slices.Concat(f.Cluster.Pods, f.Preemptors)
	at := slices.IndexFunc(all, func(other corev1.Pod) bool { return other.Namespace == namespace && other.Name == name })
	if at < 0 || len(f.Pods) == 0 || all[at].Spec.Priority == nil || f.Pods[0].Spec.Priority == nil {
		return false
	}
	return *all[at].Spec.Priority <= *f.Pods[0].Spec.Priority
}

// leaving explains a job whose pods are all terminating or just ended. Kubernetes creates the next ones once they are gone.
func leaving(f *Facts) (Finding, bool) {
	var going []*corev1.Pod
	for i := range f.Pods {
		if pod := &f.Pods[i]; pod.DeletionTimestamp != nil && !gpu.HasEnded(pod) {
			going = append(going, pod)
		}
	}
	if told, ok := pushedAside(f); ok {
		if len(going) > 0 {
			told.Says = told.Says.And("; it has until %s to end, then Kubernetes makes another one",
				going[0].DeletionTimestamp.In(f.Cluster.Now.Location()).Format("15:04:05"))
		}
		return told.Finding, true
	}
	if len(going) == 0 {
		return Finding{}, false
	}
	return Finding{
		Cause: reason.Replacing, Says: phrase.Of("pod %s was deleted and is ending, %s; Kubernetes makes another one when it is gone",
			going[0].Name, f.since(going[0].DeletionTimestamp.Add(-grace(going[0])))),
		Steps: []Step{waiting("wait until it has ended")},
	}, true
}

func grace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}
