package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// wish is what a pod asks of a node.
type wish struct {
	pod      *corev1.Pod
	demand   gpu.Demand
	requests corev1.ResourceList
	affinity nodeaffinity.RequiredNodeAffinity
}

func wishOf(pod *corev1.Pod, demand gpu.Demand) *wish {
	return &wish{
		pod: pod, demand: demand,
		requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
}

// blocker is one thing that keeps a pod from a node.
type blocker struct {
	cause Cause
	// what tells blockers of one cause apart, such as the key of a taint or the name of a resource.
	what string
}

// judged is a node of the pod's pool and type, and all that keeps the pod from it.
type judged struct {
	node     *corev1.Node
	blockers []blocker
	// cards is why its cards do not serve the pod; zero if they do.
	cards   gpu.Reason
	holders []*corev1.Pod
	// free is what the node's pods leave of each resource.
	free corev1.ResourceList
}

func (j *judged) block(cause Cause, what string) {
	j.blockers = append(j.blockers, blocker{cause, what})
}

// judge finds all that keeps the pod from a node with these pods on it, where the scheduler stops at the first.
func (w *wish) judge(node *corev1.Node, holders []*corev1.Pod) judged {
	j := judged{node: node, holders: holders}
	w.judgeTaints(&j)
	if ok, err := w.affinity.Match(node); !ok || err != nil {
		j.block(NodeSelector, "")
	}
	w.judgeCards(&j)
	w.judgeResources(&j)
	return j
}

func (w *wish) judgeTaints(j *judged) {
	taints := j.node.Spec.Taints
	if j.node.Spec.Unschedulable {
		taints = append([]corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}, taints...)
	}
	taint, found := schedulinghelper.FindMatchingUntoleratedTaint(klog.Logger{}, taints, w.pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	switch {
	case !found:
	case taint.Key == corev1.TaintNodeUnschedulable:
		j.block(Cordoned, "")
	case taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable:
		j.block(NotReady, "")
	default:
		j.block(Tainted, taint.ToString())
	}
}

// causeOf names the cause for each reason of the allocator.
var causeOf = map[gpu.Code]Cause{
	gpu.NoGPUs: NoGPUs, gpu.TooFewGPUs: TooManyGPUs, gpu.MemoryUnknown: GPUMemory, gpu.TooFewMemory: GPUMemory,
	gpu.TooFewHealthy: UnhealthyGPUs, gpu.TooFewFree: Busy, gpu.TooFewShareable: Busy,
}

func (w *wish) judgeCards(j *judged) {
	if !w.demand.NeedsCards() {
		return
	}
	allocator, used, err := cardsOf(j.node, j.holders)
	if err != nil {
		j.cards = gpu.Reason{Code: gpu.NoGPUs, Asked: max(w.demand.Whole, w.demand.Shared)}
		j.block(NoGPUs, "")
		return
	}
	if _, j.cards = allocator.Allocate(&used, &w.demand); !j.cards.IsZero() {
		j.block(causeOf[j.cards.Code], "")
	}
}

// cardsOf returns the cards of a node, and what its pods hold of them.
func cardsOf(node *corev1.Node, holders []*corev1.Pod) (*gpu.Allocator, gpu.Used, error) {
	inventory, _ := gpu.InventoryOf(node) // the error tells what was ignored, and the rest holds
	var used gpu.Used
	allocator, err := gpu.NewAllocator(inventory, nil)
	if err != nil {
		return nil, used, fmt.Errorf("reading the GPUs of node %s: %w", node.Name, err)
	}
	for _, pod := range holders {
		holding, _ := allocator.HoldingOf(pod) // counted pessimistically when its annotation is wrong
		used.Add(&holding)
	}
	return allocator, used, nil
}

// judgeResources compares what Kubernetes counts: CPU, memory, pods, and everything else but GPUs that the cards have
// judged already.
func (w *wish) judgeResources(j *judged) {
	free := j.node.Status.Allocatable.DeepCopy()
	j.free = free
	for _, pod := range j.holders {
		for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			left := free[name]
			left.Sub(quantity)
			free[name] = left
		}
	}
	if pods := free[corev1.ResourcePods]; pods.CmpInt64(int64(len(j.holders))) <= 0 {
		j.block(PodLimit, "")
	}
	for name, asked := range w.requests {
		left := free[name]
		if asked.Cmp(left) <= 0 || asked.IsZero() {
			continue
		}
		w.blockResource(j, name, left)
	}
}

func (w *wish) blockResource(j *judged, name corev1.ResourceName, left resource.Quantity) {
	switch {
	case name == corev1.ResourceCPU:
		j.block(CPUShort, "")
	case name == corev1.ResourceMemory:
		j.block(MemoryShort, "")
	case name != names.ResourceGPU && name != names.ResourceSharedGPU:
		j.block(ResourceShort, string(name))
	case j.cards.IsZero():
		// The cards are there and Kubernetes does not offer them, as when a device plugin has just lost some.
		asked, total := w.requests[name], j.node.Status.Allocatable[name]
		j.cards = gpu.Reason{Code: gpu.TooFewFree, Asked: asked.Value(), Usable: max(left.Value(), 0), Total: total.Value()}
		if asked.Cmp(total) > 0 {
			j.cards.Code = gpu.TooFewGPUs
		}
		j.block(causeOf[j.cards.Code], "")
	}
}

// has reports whether a cause is among a node's blockers.
func (j *judged) has(cause Cause) bool {
	for _, blocker := range j.blockers {
		if blocker.cause == cause {
			return true
		}
	}
	return false
}

// nodeWord counts nodes in words.
func nodeWord(count int) string {
	if count == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", count)
}

// gpuWord counts GPUs in words.
func gpuWord(count int64) string {
	if count == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", count)
}

func listOf(values []string) string { return strings.Join(values, ", ") }
