package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// explainUnplacedPod explains a pod without a node, in this order: what keeps the scheduler from processing it, what refused the place that it found, what the
// pod itself lacks, and what blocks the nodes.
func explainUnplacedPod(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	condition := podCondition(pod, corev1.PodScheduled)
	switch {
	case condition.Reason == corev1.PodReasonSchedulingGated || len(pod.Spec.SchedulingGates) > 0:
		return singleFinding(explainGatedPod(pod)), nil
	case isUnnamed(pod) && f.Job.Kind == KindPod:
		return explainSearchedPod(f, pod, "") // the other scheduler's message does not apply to ours
	case !names.IsOurScheduler(pod.Spec.SchedulerName) && condition.Reason == "":
		return singleFinding(otherScheduler(f, pod)), nil
	}
	verdict := podVerdict(pod)
	refused := verdictFindings(verdict, f.Job.Namespace, reason.RefusalReasons)
	if len(refused) > 0 {
		verdict = reason.PlaceRefused.TextBefore(verdict) // whatever the text of the refusal
	}
	stopped, isDown := schedulerDown(f, pod)
	if isDown {
		verdict = "" // what it said before is not so now
	}
	out, misses := explainSearchedPod(f, pod, verdict)
	out = withGPUQuotas(f, pod, out)
	if len(out) > 0 && !slices.Contains([]reason.Cause{reason.RoomNow, reason.WaitingForTurn, reason.Preempting}, out[0].Cause) {
		out = append(out, verdictFindings(verdict, f.Job.Namespace, reason.EvictionReasons)...)
	}
	if len(refused) > 0 {
		out = slices.Concat(refused, withoutRoomNow(out)) // wherever there is room
	}
	if isDown {
		return append(singleFinding(stopped), withoutRoomCauses(out)...), nil
	}
	if condition.Reason == "" && !f.Simulated && !isHeldBack(out) {
		return append(singleFinding(explainUnseenPod(f, pod)), withoutRoomNow(out)...), misses
	}
	return out, misses
}

// explainUnseenPod explains a pod that no scheduler has looked at: its turn comes, or no scheduler runs under the name in its spec.
func explainUnseenPod(f *Facts, pod *corev1.Pod) Finding {
	leader := f.Cluster.Leader()
	if reason.AttentionTo(slices.Concat(f.Cluster.Pods, f.Pods)).IsUnheard(pod, leader.LeadsSince(), f.Cluster.Now) {
		return UnheardProfile(pod.Spec.SchedulerName, leader)
	}
	return explainQueuedPod(f)
}

// UnheardProfile explains pods that name a profile which the scheduler likely does not have: its configuration is not read, and not all pods that it looks
// at are. Operators such as KubeRay write that name, so that administrators come first. leader is nil if the lease may not be read.
func UnheardProfile(name string, leader *snapshot.Leader) Finding {
	says := phrase.Textf("no scheduler named %s has looked at the pod: %s runs, and likely has no profile of that name, or it is still busy with others", name, names.SchedulerName)
	if leader == nil || !leader.PlacesJobs() {
		says = phrase.Textf("no scheduler named %s has looked at the pod: likely %s has no profile of that name, or it does not run, or is still busy with others", name, names.SchedulerName)
	}
	return Finding{
		Cause: reason.OtherScheduler, Message: says,
		Steps: []Step{
			{Action: reason.AskAdministrators, Name: name, Message: phrase.Textf("see with gpuctl doctor whether pods wait for it; if so, ask the administrators for a profile with "+
				"schedulerName: %s in the configuration of %s, as manifests/scheduler has it", name, names.SchedulerName)},
			{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.schedulerName", Value: names.SchedulerName,
				Message: phrase.Textf("set schedulerName: %s in the pod, or in the template it is made of, and create it again", names.SchedulerName)},
		},
	}
}

// explainSearchedPod explains a pod that a scheduler processes. It uses the current cluster. For what the user may not read, and what only the scheduler knows,
// it uses the verdict, "" if there is no valid one.
func explainSearchedPod(f *Facts, pod *corev1.Pod, verdict string) ([]Finding, []NearMiss) {
	s, err := newSearch(f, pod)
	_, devices := pod.Annotations[names.AnnotationGPUDevices]
	switch {
	case err != nil:
		return singleFinding(explainMalformedRequest(pod, err.Error())), nil
	case devices:
		return singleFinding(explainMalformedRequest(pod, reason.ForeignDevices.FormatText(names.AnnotationGPUDevices))), nil
	}
	if finding, ok := s.explainLeavingPods(verdict); ok {
		return singleFinding(finding), nil
	}
	_, members, gathers := reason.MissingMembers(verdict)
	if gathers {
		if finding, ok := explainIncompleteGang(f, pod, members); ok {
			return singleFinding(finding), nil
		}
	}
	out := verdictFindings(verdict, f.Job.Namespace, reason.PodReasons)
	if f.Space.HasPart(snapshot.PartPodGroups) { // the current state counts, not an earlier one
		out = slices.DeleteFunc(out, func(f Finding) bool { return f.Cause == reason.GangIncomplete })
		if missing, ok := explainMissingGroup(f, pod); ok {
			out = append(out, missing)
		}
	}
	if claims, being := s.checkVolumeClaims(); f.Space.HasPart(snapshot.PartClaims) {
		if being {
			return append(out, claims...), nil
		}
		out = append(out, claims...)
	} else {
		out = append(out, verdictFindings(verdict, f.Job.Namespace, reason.ClaimReasons)...)
	}
	claimed := s.checkDeviceClaims()
	if slices.ContainsFunc(claimed, func(f Finding) bool { return f.Cause == reason.DeviceClaimMissing }) {
		return append(out, claimed...), nil // the scheduler considers no nodes before that
	}
	if out = append(out, claimed...); len(claimed) > 0 {
		verdict = "" // it says that devices are not free, as if waiting would help
	}
	if !f.seesNodes() {
		return slices.Concat(out, explainFromVerdict(f, verdict, len(out) > 0 || verdict == "")), nil
	}
	also, misses := s.explainAcrossNodes(verdict)
	if out = append(out, s.explainGangDomain(slices.Concat(out, also))...); len(out) > 0 {
		also = withoutRoomNow(also)
	}
	return append(out, also...), misses
}

// explainLeavingPods explains a pod whose victims are terminating, or have time to save their work before that.
func (s *search) explainLeavingPods(verdict string) (Finding, bool) {
	if finding, ok := s.explainPreemption(); ok {
		return finding, true
	}
	return s.explainPendingEvictions(verdict)
}

// explainFromVerdict returns what only the verdict says about nodes and gangs.
func explainFromVerdict(f *Facts, verdict string, explained bool) []Finding {
	out := slices.Concat(verdictFindings(verdict, f.Job.Namespace, reason.GangReasons), verdictFindings(verdict, f.Job.Namespace, reason.NodeReasons), verdictFindings(verdict, f.Job.Namespace, reason.PlainNodeReasons))
	if len(out) == 0 && !explained {
		return singleFinding(explainRejection(verdict))
	}
	return out
}

// explainAcrossNodes explains what blocks the nodes: for a member of a gang, what blocks the next member without a place.
func (s *search) explainAcrossNodes(verdict string) ([]Finding, []NearMiss) {
	if out := s.judgeNodes(); len(out) > 0 {
		return out, nil
	}
	blocked := s.summarizeBlockers(verdict)
	pod := s.request.Pod
	if !startsTogether(s.facts, pod) {
		return blocked, s.nearMisses()
	}
	if out, misses, ok := s.explainGang(pod, blocked); ok {
		return out, misses
	}
	if len(blocked) > 0 && blocked[0].Cause == reason.RoomNow {
		all := gangSize(s.facts, pod, gangMembers(s.facts, pod))
		return singleFinding(Finding{
			Cause: reason.WaitingForTurn, Message: phrase.Textf("all %d members of the job are there, and the scheduler looks for their places", all),
			Steps: []Step{waitStep("wait some seconds: the scheduler tries again by itself")},
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

func explainMalformedRequest(pod *corev1.Pod, text string) Finding {
	deletion := "gpuctl delete " + pod.Labels[names.LabelJob] + " -n " + pod.Namespace
	return Finding{
		Cause: reason.MalformedRequest, Message: phrase.Textf("the pod's request cannot be read: %s", text),
		Steps: []Step{{Action: reason.Resubmit, Field: "metadata.annotations", Command: deletion,
			Message: phrase.Textf("correct it, then delete the job and submit it again: %s", deletion)}},
	}
}

func otherScheduler(f *Facts, pod *corev1.Pod) Finding {
	return Finding{
		Cause: reason.OtherScheduler, Message: phrase.Textf("the pod waits for a scheduler named %q, which has not looked at it", pod.Spec.SchedulerName),
		Steps: []Step{{Action: reason.Resubmit, Field: "spec.schedulerName", Value: names.SchedulerName, Command: gpuctlCommand("delete", &f.Job),
			Message: phrase.Textf("delete the job, set schedulerName: %s, as gpuctl create does, and submit it again", names.SchedulerName)},
			{Action: reason.AskAdministrators, Message: phrase.Textf("see that the other scheduler runs")}},
	}
}

func explainGatedPod(pod *corev1.Pod) Finding {
	gates := make([]string, len(pod.Spec.SchedulingGates))
	for i, gate := range pod.Spec.SchedulingGates {
		gates[i] = gate.Name
	}
	return Finding{
		Cause: reason.SchedulingGated, Message: phrase.Textf("the pod is held back by scheduling gate %s", joinList(gates)),
		Steps: []Step{{Action: reason.OpenGate, Name: joinList(gates),
			Message: phrase.Textf("wait until what set the gate takes it away, such as a queue or quota system; ask who runs it")}},
	}
}

// explainQueuedPod explains a pod that the scheduler has not processed yet.
func explainQueuedPod(f *Facts) Finding {
	out := Finding{
		Cause: reason.WaitingForTurn, Message: phrase.Textf("the scheduler has not looked at the pod yet"),
		Steps: []Step{waitStep("wait: pods of higher priority, and older ones, come first")},
	}
	if !f.Cluster.HasPart(snapshot.PartLease) {
		out.Steps = append(out.Steps, Step{Action: reason.AskAdministrators, Message: phrase.Textf("if it lasts, ask the administrators whether %s is running", names.SchedulerName)})
	}
	return out
}
