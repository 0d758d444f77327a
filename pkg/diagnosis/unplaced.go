package diagnosis

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// unplaced explains a pod without a node: first what keeps the scheduler from looking at it, then what the pod itself
// lacks, then what stands against the nodes.
func unplaced(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	condition := conditionOf(pod, corev1.PodScheduled)
	switch {
	case condition.Reason == corev1.PodReasonSchedulingGated || len(pod.Spec.SchedulingGates) > 0:
		return one(gated(pod)), nil
	case pod.Spec.SchedulerName != names.SchedulerName && condition.Reason == "":
		return one(otherScheduler(f, pod)), nil
	}
	out, misses := searched(f, pod)
	if down, ok := schedulerDown(f, pod); ok {
		return append(one(down), standing(out)...), misses
	}
	if condition.Reason == "" && !f.Simulated && !waitsForVolume(out) {
		return append(one(turn(f)), standing(out)...), misses
	}
	return out, misses
}

// searched explains a pod that a scheduler looks at, by the cluster as it is now; of what the user may not read, and of
// what the scheduler alone knows, by its verdict.
func searched(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	verdict := verdictOn(pod)
	s, err := newSearch(f, pod)
	_, devices := pod.Annotations[names.AnnotationGPUDevices]
	switch {
	case err != nil:
		return one(malformed(pod, err.Error())), nil
	case devices:
		return one(malformed(pod, reason.ForeignDevices.Of(names.AnnotationGPUDevices))), nil
	}
	if finding, ok := s.preempting(); ok {
		return one(finding), nil
	}
	_, members, gathers := reason.MissingMembers(verdict)
	if gathers {
		if finding, ok := gathering(f, pod, members); ok {
			return one(finding), nil
		}
	}
	out := findings(verdict, f.Job.Namespace, reason.OfPods)
	if f.Space.Has(snapshot.PartPodGroups) { // it is there or not, whatever was so before
		out = slices.DeleteFunc(out, func(f Finding) bool { return f.Cause == reason.GangIncomplete })
		if missing, ok := groupMissing(f, pod); ok {
			out = append(out, missing)
		}
	}
	if claims, being := s.claims(); f.Space.Has(snapshot.PartClaims) {
		if being {
			return append(out, claims...), nil
		}
		out = append(out, claims...)
	} else {
		out = append(out, findings(verdict, f.Job.Namespace, reason.OfClaims)...)
	}
	if !f.seesNodes() {
		return slices.Concat(out, unread(f, verdict, len(out) > 0)), nil
	}
	also, misses := s.onNodes(verdict)
	if len(out) > 0 {
		also = standing(also)
	}
	return append(out, also...), misses
}

// unread is what the verdict alone tells of nodes and gangs.
func unread(f *Facts, verdict string, explained bool) []Finding {
	out := slices.Concat(findings(verdict, f.Job.Namespace, reason.OfGangs), findings(verdict, f.Job.Namespace, reason.OfNodes), findings(verdict, f.Job.Namespace, reason.OfPlainNodes))
	if len(out) == 0 && !explained {
		return one(rejected(verdict))
	}
	return out
}

// onNodes tells what stands against the nodes: for a member of a gang, against the next one that has no place.
func (s *search) onNodes(verdict string) ([]Finding, []NearMiss) {
	if out := s.look(); len(out) > 0 {
		return out, nil
	}
	blocked := s.blockers(verdict)
	pod := s.request.Pod
	if pod.Labels[names.LabelPodGroup] == "" {
		return blocked, s.nearMisses()
	}
	if out, misses, ok := s.gang(pod, blocked); ok {
		return out, misses
	}
	if len(blocked) > 0 && blocked[0].Cause == reason.RoomNow {
		all := max(len(membersOf(s.facts, pod)), int(s.facts.Job.Desired))
		return one(Finding{
			Cause: reason.WaitingForTurn, Text: fmt.Sprintf("all %d members of the job are there, and the scheduler looks for their places", all),
			Steps: []Step{waiting("wait some seconds: the scheduler tries again by itself")},
		}), nil
	}
	return blocked, s.nearMisses()
}

// waitsForVolume reports whether the scheduler has chosen a node already.
func waitsForVolume(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Cause == reason.VolumeUnbound || f.Cause == reason.MalformedRequest })
}

func malformed(pod *corev1.Pod, text string) Finding {
	deletion := "gpuctl delete " + pod.Labels[names.LabelJob] + " -n " + pod.Namespace
	return Finding{
		Cause: reason.MalformedRequest, Text: "the pod's request cannot be read: " + text,
		Steps: []Step{{Action: reason.Resubmit, Field: "metadata.annotations", Command: deletion,
			Text: "correct it, then delete the job and submit it again: " + deletion}},
	}
}

func otherScheduler(f *Facts, pod *corev1.Pod) Finding {
	return Finding{
		Cause: reason.OtherScheduler, Text: fmt.Sprintf("the pod waits for a scheduler named %q, which has not looked at it", pod.Spec.SchedulerName),
		Steps: []Step{{Action: reason.Resubmit, Field: "spec.schedulerName", Value: names.SchedulerName, Command: command("delete", &f.Job),
			Text: fmt.Sprintf("delete the job, set schedulerName: %s, as gpuctl create does, and submit it again", names.SchedulerName)},
			{Action: reason.AskAdministrators, Text: "see that the other scheduler runs"}},
	}
}

func gated(pod *corev1.Pod) Finding {
	gates := make([]string, len(pod.Spec.SchedulingGates))
	for i, gate := range pod.Spec.SchedulingGates {
		gates[i] = gate.Name
	}
	return Finding{
		Cause: reason.SchedulingGated, Text: "the pod is held back by scheduling gate " + listOf(gates),
		Steps: []Step{{Action: reason.OpenGate, Name: listOf(gates),
			Text: "wait until what set the gate takes it away, such as a queue or quota system; ask who runs it"}},
	}
}

// turn explains a pod that the scheduler has not come to yet.
func turn(f *Facts) Finding {
	out := Finding{
		Cause: reason.WaitingForTurn, Text: "the scheduler has not looked at the pod yet",
		Steps: []Step{waiting("wait: pods of higher priority, and older ones, come first")},
	}
	if !f.Cluster.Has(snapshot.PartLease) {
		out.Steps = append(out.Steps, Step{Action: reason.AskAdministrators, Text: "if it lasts, ask the administrators whether " + names.SchedulerName + " is running"})
	}
	return out
}

// schedulerDown tells a scheduler that is not there, by its lease. Whatever a scheduler said before it died, nobody
// looks at the pod again. One that runs alone may do without a lease: then a pod that nobody has looked at for a while
// shows that there is none.
func schedulerDown(f *Facts, pod *corev1.Pod) (Finding, bool) {
	switch {
	case !f.Cluster.Has(snapshot.PartLease) || f.Simulated:
		return Finding{}, false
	case f.Cluster.Lease == nil && (verdictOn(pod) != "" || f.Cluster.Now.Sub(pod.CreationTimestamp.Time) < slowScheduler):
		return Finding{}, false
	}
	switch leader := f.Cluster.Leader(); {
	case leader.Places():
		return Finding{}, false
	case leader.State == snapshot.LeaderDead:
		return down(fmt.Sprintf("no %s has been running for %s", names.SchedulerName, span(leader.Silent))), true
	}
	return down("no " + names.SchedulerName + " is running"), true
}

// slowScheduler is how long a scheduler without a lease may take to look at a pod.
const slowScheduler = 5 * second

func down(text string) Finding {
	return Finding{
		Cause: reason.SchedulerDown, Text: text + ", so nobody looks at the pod",
		Steps: []Step{{Action: reason.StartScheduler, Kind: "Deployment", Name: names.SchedulerName,
			Command: "kubectl -n kube-system get deployment " + names.SchedulerName,
			Text:    "have the administrators start it: kubectl -n kube-system get deployment " + names.SchedulerName}},
	}
}
