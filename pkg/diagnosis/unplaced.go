package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// unplaced explains a pod without a node.
func unplaced(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	if finding, ok := notTried(f, pod); ok {
		return one(finding), nil
	}
	verdict := verdictOn(pod)
	request, err := fit.RequestOf(pod)
	switch {
	case err != nil:
		return one(malformed(pod, err.Error())), nil
	case strings.Contains(verdict, "annotation "+names.GroupName):
		return one(malformed(pod, refusal(verdict))), nil
	}
	_, members, gang := inventory.MissingMembers(verdict)
	if gang {
		if finding, ok := gathering(f, pod, members); ok {
			return one(finding), nil
		}
	}
	out := findings(verdict, podRules)
	if len(out) > 0 {
		return out, nil
	}
	s := &search{facts: f, request: request}
	if gang {
		return s.gathered(members)
	}
	if !f.mayRead(UnreadNodes) || !f.mayRead(UnreadPods) {
		out = append(findings(verdict, nodeRules), findings(verdict, plainRules)...)
		if len(out) == 0 {
			out = one(rejected(verdict))
		}
		return out, nil
	}
	return s.explain(verdict)
}

// refusal is the part of a verdict that says what is wrong with the pod itself.
func refusal(verdict string) string {
	verdict, _, _ = strings.Cut(verdict, " preemption: ")
	if _, rest, ok := strings.Cut(verdict, "nodes are available: "); ok {
		verdict = rest
	}
	return strings.TrimRight(verdict, " .")
}

func malformed(pod *corev1.Pod, text string) Finding {
	return Finding{
		Cause: MalformedRequest, Text: "the pod's request cannot be read: " + text,
		Advice: []string{"correct it, then delete the job and submit it again: gpuctl delete " + pod.Labels[names.LabelJob] +
			" -n " + pod.Namespace},
	}
}

// notTried explains a pod that no scheduler has looked at.
func notTried(f *Facts, pod *corev1.Pod) (Finding, bool) {
	condition := conditionOf(pod, corev1.PodScheduled)
	switch {
	case condition.Reason == corev1.PodReasonSchedulingGated || len(pod.Spec.SchedulingGates) > 0:
		return gated(pod), true
	case condition.Reason != "":
		return Finding{}, false
	case pod.Spec.SchedulerName != names.SchedulerName:
		return Finding{
			Cause: OtherScheduler, Text: fmt.Sprintf("the pod waits for a scheduler named %q, which has not looked at it", pod.Spec.SchedulerName),
			Advice: []string{fmt.Sprintf("set schedulerName: %s, as gpuctl create does, or see that the other scheduler runs", names.SchedulerName)},
		}, true
	}
	return schedulerState(f), true
}

func gated(pod *corev1.Pod) Finding {
	gates := make([]string, len(pod.Spec.SchedulingGates))
	for i, gate := range pod.Spec.SchedulingGates {
		gates[i] = gate.Name
	}
	return Finding{
		Cause: SchedulingGated, Text: "the pod is held back by scheduling gate " + listOf(gates),
		Advice: []string{"wait until what set the gate takes it away, such as a queue or quota system; ask who runs it"},
	}
}

// schedulerState tells a scheduler that is busy from one that is not there, by its lease.
func schedulerState(f *Facts) Finding {
	turn := Finding{
		Cause: WaitingForTurn, Text: "the scheduler has not looked at the pod yet",
		Advice: []string{"wait: pods of higher priority, and older ones, come first"},
	}
	switch {
	case !f.mayRead(UnreadLease):
		turn.Advice = append(turn.Advice, "if it lasts, ask the administrators whether "+names.SchedulerName+" is running")
		return turn
	}
	switch leader := inventory.LeaderOf(f.Lease, f.Now); {
	case leader.Places():
		return turn
	case leader.State == inventory.LeaderDead:
		return down(fmt.Sprintf("no %s has been running for %s", names.SchedulerName, leader.Silent.Round(second)))
	}
	return down("no " + names.SchedulerName + " is running")
}

func down(text string) Finding {
	return Finding{
		Cause: SchedulerDown, Text: text + ", so nobody looks at the pod",
		Advice: []string{"have the administrators start it: kubectl -n kube-system get deployment " + names.SchedulerName},
	}
}
