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

// evictionFinding is the finding that a pod of the job was evicted from its node.
type evictionFinding struct {
	Finding
	// holdsPlace is true while the preemptor still exists.
	holdsPlace bool
	// isPast is true for a pod that is gone, and says nothing of those that are there.
	isPast bool
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

// explainEviction describes the last eviction, if it is the reason that the job has to start again. The pod records it in its condition. After the pod is
// deleted, its event does.
func explainEviction(f *Facts) (evictionFinding, bool) {
	last, ok := lastDisruption(f)
	if !ok {
		return evictionFinding{}, false
	}
	out := evictionFinding{}
	var where phrase.Text
	if last.node != "" {
		where = phrase.Textf(" node %s", last.node)
	}
	switch last.reason {
	case corev1.PodReasonPreemptionByScheduler:
		who, holds := f.describeEvictor(last.by)
		out.Cause, out.holdsPlace = reason.Preempted, holds
		out.Message = phrase.Textf("preempted by %s %s: pod %s had to leave%s for a job of higher priority", who, f.sinceText(last.at), last.pod, where)
		if f.isQuotaReclaim(last.by) {
			out.Message = phrase.Textf("preempted by %s %s: pod %s had to leave%s, as its GPUs were borrowed from who is guaranteed them by a GPUQuota", who, f.sinceText(last.at), last.pod, where)
		}
		out.Steps = []Step{waitStep("wait until that job ends: the job starts again by itself")}
	case reasonDrained:
		out.Cause, out.isPast = reason.Evicted, true
		out.Message = phrase.Textf("pod %s, which ran on node %s, is gone, and the node is cordoned since: what leaves a drained node starts on another one", last.pod, last.node)
		out.Steps = []Step{waitStep("wait: Kubernetes makes another pod, which starts where there is room")}
	default:
		out.Cause = reason.Evicted
		out.Message = phrase.Textf("pod %s was told to leave%s %s: %s", last.pod, where, f.sinceText(last.at), evictionReason(last))
		out.Steps = []Step{waitStep("wait: Kubernetes makes another pod, which starts where there is room")}
	}
	return out, true
}

// evictionReason names what evicted a pod.
func evictionReason(last disruption) phrase.Text {
	switch last.reason {
	case "DeletionByTaintManager":
		return phrase.Textf("its node was not ready for too long, or got a taint that it does not tolerate")
	case g8s.EventMovedFromBrokenGPU:
		return phrase.Textf("a GPU that it held, or one of its gang's, was found broken")
	case "EvictionByEvictionAPI":
		return phrase.Textf("it was evicted, as kubectl drain and gpuctl advise defrag do")
	case "DeletionByPodGC":
		return phrase.Textf("its node is gone")
	case g8s.ReasonRejectedByKubelet:
		return phrase.Textf("its node had no gpu-agent that serves, and rejected it")
	case corev1.PodReasonTerminationByKubelet:
		return phrase.Textf("its node ran short of memory or disk, or was shut down")
	}
	return phrase.Quote(strings.TrimRight(cmp.Or(last.message, last.reason), " ."))
}

// lastDisruption finds the most recently evicted pod of the job.
func lastDisruption(f *Facts) (disruption, bool) {
	var all []disruption
	for i := range f.Pods {
		pod := &f.Pods[i]
		condition := podCondition(pod, corev1.DisruptionTarget)
		if condition.Status == corev1.ConditionTrue && !isActive(pod) {
			why := condition.Reason
			if why == "EvictionByEvictionAPI" && isMovedFromBrokenGPU(f.Job.Events, pod.Name) {
				why = g8s.EventMovedFromBrokenGPU
			}
			all = append(all, disruption{pod: pod.Name, node: pod.Spec.NodeName, at: condition.LastTransitionTime.Time,
				reason: why, message: condition.Message, by: findPreemptor(f.Job.Events, pod.Name)})
		}
	}
	for _, event := range f.Job.Past {
		switch event.Reason {
		case "Preempted":
			all = append(all, disruption{pod: podOfEvent(event), at: event.Last, reason: corev1.PodReasonPreemptionByScheduler, by: event.Related})
		case "TaintManagerEviction":
			all = append(all, disruption{pod: podOfEvent(event), at: event.Last, reason: "DeletionByTaintManager"})
		case g8s.EventMovedFromBrokenGPU:
			all = append(all, disruption{pod: podOfEvent(event), at: event.Last, reason: event.Reason})
		}
	}
	if all = append(all, f.drainedPods()...); len(all) == 0 {
		return disruption{}, false
	}
	return slices.MaxFunc(all, func(a, b disruption) int { return a.at.Compare(b.at) }), true
}

// reasonDrained is the reason of a pod that left a node which is cordoned. Nothing of Kubernetes records that: the eviction API leaves no event, and takes
// the condition of the pod along.
const reasonDrained = "Drained"

// drainedPods returns the deleted pods of the job that had been placed on nodes which are cordoned now. When they left is not known.
func (f *Facts) drainedPods() []disruption {
	var out []disruption
	for _, event := range f.Job.Past {
		_, node, placed := strings.Cut(event.Message, " to ")
		cordoned := slices.ContainsFunc(f.Cluster.Nodes, func(n corev1.Node) bool { return n.Name == node && n.Spec.Unschedulable })
		if event.Reason == "Scheduled" && placed && cordoned {
			out = append(out, disruption{pod: podOfEvent(event), node: node, reason: reasonDrained})
		}
	}
	return out
}

func podOfEvent(event inventory.Event) string { return strings.TrimPrefix(event.Object, "Pod/") }

func isMovedFromBrokenGPU(events []inventory.Event, pod string) bool {
	return slices.ContainsFunc(events, func(e inventory.Event) bool { return e.Reason == g8s.EventMovedFromBrokenGPU && podOfEvent(e) == pod })
}

func findPreemptor(events []inventory.Event, pod string) string {
	for _, event := range slices.Backward(events) {
		if event.Reason == "Preempted" && podOfEvent(event) == pod {
			return event.Related
		}
	}
	return ""
}

// describeEvictor names the job of a pod and reports whether the pod still holds its place.
func (f *Facts) describeEvictor(pod string) (who phrase.Text, holds bool) {
	if pod == "" {
		return phrase.Textf("a pod of higher priority"), false
	}
	namespace, name, _ := strings.Cut(pod, "/")
	is := func(other corev1.Pod) bool { return other.Namespace == namespace && other.Name == name }
	holds = slices.ContainsFunc(f.Cluster.Pods, is)
	all := slices.Concat(f.Cluster.Pods, f.Preemptors)
	if at := slices.IndexFunc(all, is); at >= 0 {
		return podHolder(&all[at]).displayName(), holds
	}
	return phrase.Textf("pod %s of namespace %s", name, namespace), holds
}

// isQuotaReclaim reports whether a preemptor had no higher priority than its victim of the job, which only happens with quotas.
func (f *Facts) isQuotaReclaim(pod string) bool {
	namespace, name, _ := strings.Cut(pod, "/")
	all := slices.Concat(f.Cluster.Pods, f.Preemptors)
	at := slices.IndexFunc(all, func(other corev1.Pod) bool { return other.Namespace == namespace && other.Name == name })
	if at < 0 || len(f.Pods) == 0 || all[at].Spec.Priority == nil || f.Pods[0].Spec.Priority == nil {
		return false
	}
	return *all[at].Spec.Priority <= *f.Pods[0].Spec.Priority
}

// explainTerminatingPods explains a job whose pods are all terminating or just ended. Kubernetes creates the next ones once they are gone.
func explainTerminatingPods(f *Facts) (Finding, bool) {
	var going []*corev1.Pod
	for i := range f.Pods {
		if pod := &f.Pods[i]; pod.DeletionTimestamp != nil && !gpu.HasEnded(pod) {
			going = append(going, pod)
		}
	}
	if told, ok := explainEviction(f); ok && !told.isPast {
		if len(going) > 0 {
			told.Message = told.Message.Addf("; it has until %s to end, then Kubernetes makes another one",
				going[0].DeletionTimestamp.In(f.Cluster.Now.Location()).Format("15:04:05"))
		}
		return told.Finding, true
	}
	if len(going) == 0 {
		return Finding{}, false
	}
	return Finding{
		Cause: reason.Replacing, Message: phrase.Textf("pod %s was deleted and is ending, %s; Kubernetes makes another one when it is gone",
			going[0].Name, f.sinceText(going[0].DeletionTimestamp.Add(-gracePeriod(going[0])))),
		Steps: []Step{waitStep("wait until it has ended")},
	}, true
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}
