package reason

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Precedence orders causes on nodes that stand against a pod equally: first those that pass with time, then those that an administrator can mend, then
// those that only another request can.
var Precedence = []Cause{
	Fragmented, Busy, CPUShort, MemoryShort, ResourceShort, PodLimit, Cordoned, ReservedNode, NotReady, KeptOff, AgentAway, Tainted, BadInventory,
	UnhealthyGPUs, NodeSelector, GPUMemory, NotShared, TooManyGPUs, NoGPUs,
}

// verdictLayers are the reasons that a verdict may have, the most upstream first.
var verdictLayers = [][]*Reason{RefusalReasons, PodReasons, ClaimReasons, GangReasons, NodeReasons, PlainNodeReasons}

// CauseOfVerdict is the cause of a scheduler's verdict: what it says of the pod itself comes before what it says of nodes. Of nodes, those that are of the
// right pool and type count, as only these could take the pod.
func CauseOfVerdict(verdict string) Cause {
	if there, all, ok := MissingMembers(verdict); ok && there < all {
		return GangIncomplete
	}
	for _, layer := range verdictLayers {
		if found := FindIn(verdict, layer); len(found) > 0 {
			return slices.MinFunc(found, compareFound).Cause
		}
	}
	if verdict == "" {
		return Unknown
	}
	return RejectedByScheduler
}

func compareFound(a, b Found) int {
	return cmp.Or(cmp.Compare(precedenceOf(a), precedenceOf(b)), cmp.Compare(b.Nodes, a.Nodes))
}

// precedenceOf is the place of a reason among those of its layer: nodes of other pools and types come last.
func precedenceOf(found Found) int {
	if slices.Contains([]*Reason{InOtherPool, WithOtherType, InAnotherPool, OtherInBoth}, found.Reason) {
		return len(Precedence)
	}
	return slices.Index(Precedence, found.Cause)
}

// CauseOfUnplaced is the cause for which a pod has no node, by what is written on it. A caller that reads the nodes may know a narrower one: see [Cause.Broad].
func CauseOfUnplaced(pod *corev1.Pod) Cause {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		return SchedulingGated
	case pod.Status.NominatedNodeName != "":
		return Preempting
	case at >= 0 && pod.Status.Conditions[at].Reason == corev1.PodReasonSchedulingGated:
		return SchedulingGated
	case isMalformed(pod):
		return MalformedRequest
	case at >= 0 && pod.Status.Conditions[at].Reason != "":
		return CauseOfVerdict(pod.Status.Conditions[at].Message)
	case !names.IsOurScheduler(pod.Spec.SchedulerName):
		return OtherScheduler
	}
	return WaitingForTurn
}

func isMalformed(pod *corev1.Pod) bool {
	_, err := gpu.DemandOf(pod)
	return err != nil && names.IsOurScheduler(pod.Spec.SchedulerName)
}

// broader are the causes that only nodes and events show, and what stands for them where these are not read.
var broader = map[Cause]Cause{
	Fragmented: Busy, TypeMisspelt: NoSuchType, TypeInOtherPool: NoSuchType,
	NotReady: Tainted, KeptOff: Tainted, VolumeMount: Starting, ProbeFailing: Starting,
}

// Broad is the cause as a list has it that goes by what the scheduler and kubelet wrote on the pods alone: Busy for Fragmented. Most are their own.
func (c Cause) Broad() Cause { return cmp.Or(broader[c], c) }
