package diagnosis

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// blocker is one reason why a node cannot take a pod.
type blocker struct {
	cause reason.Cause
	// what distinguishes blockers with the same cause, such as the key of a taint or the name of a resource.
	what string
}

// judgedNode is a node of the pod's pool and type, with all blockers.
type judgedNode struct {
	node     *corev1.Node
	blockers []blocker
	// gpuReason is why its GPUs do not serve the pod; zero if they do.
	gpuReason gpu.Reason
	holders   []*corev1.Pod
	// free returns the free amount of a resource on the node.
	free func(corev1.ResourceName) resource.Quantity
}

// causeOf maps each obstacle except GPUs to a cause.
var causeOf = map[fit.Kind]reason.Cause{
	fit.Cordoned: reason.Cordoned, fit.NotReady: reason.NotReady, fit.Tainted: reason.Tainted, fit.KeptOff: reason.KeptOff, fit.AgentAway: reason.AgentAway, fit.Reserved: reason.ReservedNode, fit.NodeSelector: reason.NodeSelector,
	fit.CPUShort: reason.CPUShort, fit.MemoryShort: reason.MemoryShort, fit.ResourceShort: reason.ResourceShort, fit.PodLimit: reason.PodLimit,
}

// gpuCauses maps each reason of the allocator to a cause.
var gpuCauses = map[gpu.Code]reason.Cause{
	gpu.NoGPUs: reason.NoGPUs, gpu.TooFewGPUs: reason.TooManyGPUs, gpu.OnlySlots: reason.TooManyGPUs, gpu.TooFewOfType: reason.TooManyGPUs, gpu.MemoryUnknown: reason.GPUMemory, gpu.TooFewMemory: reason.GPUMemory,
	gpu.TooFewHealthy: reason.UnhealthyGPUs, gpu.TooFewFree: reason.Busy, gpu.TooFewShareable: reason.Busy,
}

// judgeNode finds all blockers of a pod on a node with these pods on it. The scheduler stops at the first.
func (s *search) judgeNode(node *corev1.Node, holders []*corev1.Pod) judgedNode {
	state := fit.NewNode(node, holders, &s.topologies)
	obstacles, cards := s.request.Obstacles(state)
	j := judgedNode{node: node, holders: holders, gpuReason: cards, free: state.FreeOf}
	for _, obstacle := range obstacles {
		cause := causeOf[obstacle.Kind]
		if obstacle.Kind == fit.Cards {
			cause = s.gpuCause(node, cards)
		}
		j.blockers = append(j.blockers, blocker{cause, obstacle.What})
	}
	return j
}

// gpuCauses maps the allocator's reason to a cause. An unreadable inventory, or a node whose sharing mode differs from the pod's request, takes
// precedence.
func (s *search) gpuCause(node *corev1.Node, cards gpu.Reason) reason.Cause {
	cause := gpuCauses[cards.Code]
	if cards.IsShortage() {
		return cause
	}
	shares := node.Labels[names.LabelSharing] == names.SharingMemory
	if wants := s.request.Demand.Shared > 0; cause != reason.GPUMemory && shares != wants && s.request.Demand.Whole+s.request.Demand.Shared > 0 && hasGPUs(node, !wants) {
		return reason.NotShared
	}
	if _, err := gpu.InventoryOf(node); err != nil && node.Annotations[names.AnnotationInventory] != "" {
		return reason.BadInventory
	}
	return cause
}

// hasGPUs reports whether a node has GPUs, shared or whole.
func hasGPUs(node *corev1.Node, shared bool) bool {
	name := corev1.ResourceName(names.ResourceGPU)
	if shared {
		name = names.ResourceSharedGPU
	}
	count := node.Status.Allocatable[name]
	return count.Sign() > 0
}

// isBlockedBy reports whether a cause is among a node's blockers.
func (j *judgedNode) isBlockedBy(cause reason.Cause) bool {
	for _, blocker := range j.blockers {
		if blocker.cause == cause {
			return true
		}
	}
	return false
}

// nodeWord counts nodes in words.
func nodeWord(count int) phrase.Text {
	if count == 1 {
		return phrase.Textf("1 node")
	}
	return phrase.Textf("%d nodes", count)
}

// gpuWord counts GPUs in words.
func gpuWord(count int64) phrase.Text {
	if count == 1 {
		return phrase.Textf("1 GPU")
	}
	return phrase.Textf("%d GPUs", count)
}

func joinList(values []string) string { return strings.Join(values, ", ") }

// listSome joins some of several texts in a sentence.
func listSome(texts []phrase.Text) phrase.Text {
	return phrase.Join(shortenList(texts), phrase.Textf(", "))
}

// shortList joins some of several names that are the same in every language.
func shortList(values []string) phrase.Text {
	texts := make([]phrase.Text, len(values))
	for i, value := range values {
		texts[i] = phrase.Quote(value)
	}
	return listSome(texts)
}
