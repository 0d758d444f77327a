package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// unplaced explains a pod without a node, in this order: what keeps the scheduler from processing it, what refused the place that it found, what the
// pod itself lacks, and what blocks the nodes.
func unplaced(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	condition := conditionOf(pod, corev1.PodScheduled)
	switch {
	case condition.Reason == corev1.PodReasonSchedulingGated || len(pod.Spec.SchedulingGates) > 0:
		return one(gated(pod)), nil
	case isUnnamed(pod) && f.Job.Kind == KindPod:
		return searched(f, pod, "") // the other scheduler's message does not apply to ours
	case pod.Spec.SchedulerName != names.SchedulerName && condition.Reason == "":
		return one(otherScheduler(f, pod)), nil
	}
	verdict := verdictOn(pod)
	refused := findings(verdict, f.Job.Namespace, reason.OfRefusals)
	if len(refused) > 0 {
		verdict = reason.PlaceRefused.Before(verdict) // whatever the text of the refusal
	}
	stopped, isDown := schedulerDown(f, pod)
	if isDown {
		verdict = "" // what it said before is not so now
	}
	out, misses := searched(f, pod, verdict)
	out = withGPUQuotas(f, pod, out)
	if len(out) > 0 && !slices.Contains([]reason.Cause{reason.RoomNow, reason.WaitingForTurn, reason.Preempting}, out[0].Cause) {
		out = append(out, findings(verdict, f.Job.Namespace, reason.OfEvictions)...)
	}
	if len(refused) > 0 {
		out = slices.Concat(refused, standing(out)) // wherever there is room
	}
	if isDown {
		return append(one(stopped), lasting(out)...), nil
	}
	if condition.Reason == "" && !f.Simulated && !isHeldBack(out) {
		return append(one(turn(f)), standing(out)...), misses
	}
	return out, misses
}

// searched explains a pod that a scheduler processes. It uses the current cluster. For what the user may not read, and what only the scheduler knows,
// it uses the verdict, "" if there is no valid one.
func searched(f *Facts, pod *corev1.Pod, verdict string) ([]Finding, []NearMiss) {
	s, err := newSearch(f, pod)
	_, devices := pod.Annotations[names.AnnotationGPUDevices]
	switch {
	case err != nil:
		return one(malformed(pod, err.Error())), nil
	case devices:
		return one(malformed(pod, reason.ForeignDevices.Of(names.AnnotationGPUDevices))), nil
	}
	if finding, ok := s.othersLeave(verdict); ok {
		return one(finding), nil
	}
	_, members, gathers := reason.MissingMembers(verdict)
	if gathers {
		if finding, ok := gathering(f, pod, members); ok {
			return one(finding), nil
		}
	}
	out := findings(verdict, f.Job.Namespace, reason.OfPods)
	if f.Space.Has(snapshot.PartPodGroups) { // the current state counts, not an earlier one
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
	claimed := s.devices()
	if slices.ContainsFunc(claimed, func(f Finding) bool { return f.Cause == reason.DeviceClaimMissing }) {
		return append(out, claimed...), nil // the scheduler considers no nodes before that
	}
	if out = append(out, claimed...); len(claimed) > 0 {
		verdict = "" // it says that devices are not free, as if waiting would help
	}
	if !f.seesNodes() {
		return slices.Concat(out, unread(f, verdict, len(out) > 0 || verdict == "")), nil
	}
	also, misses := s.onNodes(verdict)
	if len(out) > 0 {
		also = standing(also)
	}
	return append(out, also...), misses
}

// othersLeave explains a pod whose victims are terminating, or have time to save their work before that.
func (s *search) othersLeave(verdict string) (Finding, bool) {
	if finding, ok := s.preempting(); ok {
		return finding, true
	}
	return s.roomIsComing(verdict)
}

// unread returns what only the verdict says about nodes and gangs.
func unread(f *Facts, verdict string, explained bool) []Finding {
	out := slices.Concat(findings(verdict, f.Job.Namespace, reason.OfGangs), findings(verdict, f.Job.Namespace, reason.OfNodes), findings(verdict, f.Job.Namespace, reason.OfPlainNodes))
	if len(out) == 0 && !explained {
		return one(rejected(verdict))
	}
	return out
}

// onNodes explains what blocks the nodes: for a member of a gang, what blocks the next member without a place.
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
			Cause: reason.WaitingForTurn, Says: phrase.Of("all %d members of the job are there, and the scheduler looks for their places", all),
			Steps: []Step{waiting("wait some seconds: the scheduler tries again by itself")},
		}), nil
	}
	return blocked, s.nearMisses()
}

// isHeldBack reports whether the scheduler does not process the pod, or has already chosen a node.
func isHeldBack(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool {
		return f.Cause == reason.VolumeUnbound || f.Cause == reason.MalformedRequest || f.Cause == reason.DeviceClaimMissing ||
			f.Cause == reason.DeviceClaim && f.Never
	})
}

func malformed(pod *corev1.Pod, text string) Finding {
	deletion := "gpuctl delete " + pod.Labels[names.LabelJob] + " -n " + pod.Namespace
	return Finding{
		Cause: reason.MalformedRequest, Says: phrase.Of("the pod's request cannot be read: %s", text),
		Steps: []Step{{Action: reason.Resubmit, Field: "metadata.annotations", Command: deletion,
			Says: phrase.Of("correct it, then delete the job and submit it again: %s", deletion)}},
	}
}

func otherScheduler(f *Facts, pod *corev1.Pod) Finding {
	return Finding{
		Cause: reason.OtherScheduler, Says: phrase.Of("the pod waits for a scheduler named %q, which has not looked at it", pod.Spec.SchedulerName),
		Steps: []Step{{Action: reason.Resubmit, Field: "spec.schedulerName", Value: names.SchedulerName, Command: command("delete", &f.Job),
			Says: phrase.Of("delete the job, set schedulerName: %s, as gpuctl create does, and submit it again", names.SchedulerName)},
			{Action: reason.AskAdministrators, Says: phrase.Of("see that the other scheduler runs")}},
	}
}

func gated(pod *corev1.Pod) Finding {
	gates := make([]string, len(pod.Spec.SchedulingGates))
	for i, gate := range pod.Spec.SchedulingGates {
		gates[i] = gate.Name
	}
	return Finding{
		Cause: reason.SchedulingGated, Says: phrase.Of("the pod is held back by scheduling gate %s", listOf(gates)),
		Steps: []Step{{Action: reason.OpenGate, Name: listOf(gates),
			Says: phrase.Of("wait until what set the gate takes it away, such as a queue or quota system; ask who runs it")}},
	}
}

// turn explains a pod that the scheduler has not processed yet.
func turn(f *Facts) Finding {
	out := Finding{
		Cause: reason.WaitingForTurn, Says: phrase.Of("the scheduler has not looked at the pod yet"),
		Steps: []Step{waiting("wait: pods of higher priority, and older ones, come first")},
	}
	if !f.Cluster.Has(snapshot.PartLease) {
		out.Steps = append(out.Steps, Step{Action: reason.AskAdministrators, Says: phrase.Of("if it lasts, ask the administrators whether %s is running", names.SchedulerName)})
	}
	return out
}
