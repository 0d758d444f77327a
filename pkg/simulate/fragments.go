package simulate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// fragments measures how much of the free GPUs is unusable: the part of a node's free GPUs that the pods of the workload could not use there, on
// average. A pod that does not fit can use none of them; one that fits, none of the GPUs with too little left. It is the measure of Weng et al.
// (USENIX ATC'23), for pods that request GPUs.
type fragments struct {
	classes []*gpuClass
	nodes   map[string]*gpuNode
	total   float64 // of all nodes, in thousandths of a GPU
}

// gpuClass is a class of pods with the same request of GPUs and CPU.
type gpuClass struct {
	pool   string
	types  gpu.Types
	demand gpu.Demand
	// milliCPU is of the pod.
	milliCPU int64
	pods     float64
}

// gpuNode is what is left of a node.
type gpuNode struct {
	cards    []gpu.Card
	free     []int64 // of each GPU, in thousandths
	milliCPU int64
	// classes are those that may run here, and pods their number of pods.
	classes []*gpuClass
	pods    float64
	// waste is what was counted last.
	waste float64
}

// newFragments returns the measure of an empty cluster for the pods of a workload.
func newFragments(nodes []*corev1.Node, workload []*corev1.Pod) *fragments {
	f := &fragments{nodes: map[string]*gpuNode{}}
	for _, pod := range workload {
		f.expect(pod)
	}
	for _, node := range nodes {
		inventory, _ := gpu.InventoryOf(node) // the count is correct in either case
		n := &gpuNode{milliCPU: node.Status.Allocatable.Cpu().MilliValue()}
		for _, card := range inventory.Cards {
			if card.Health == gpu.Healthy {
				n.cards, n.free = append(n.cards, card), append(n.free, gpu.MilliPerCard)
			}
		}
		if len(n.cards) == 0 {
			continue
		}
		for _, class := range f.classes {
			if class.pool == gpu.PoolOf(node) && class.types.Match(node) {
				n.classes, n.pods = append(n.classes, class), n.pods+class.pods
			}
		}
		f.nodes[node.Name] = n
		f.count(n)
	}
	return f
}

// expect adds a pod to the workload.
func (f *fragments) expect(pod *corev1.Pod) {
	demand, err := gpu.DemandOf(pod)
	types, typesErr := gpu.PodTypes(pod)
	if err != nil || typesErr != nil || !demand.NeedsCards() {
		return
	}
	wanted := gpuClass{pool: gpu.PodPool(pod), types: types, demand: demand, milliCPU: milliCPUOf(pod)}
	at := slices.IndexFunc(f.classes, func(c *gpuClass) bool {
		return c.pool == wanted.pool && c.milliCPU == wanted.milliCPU && c.demand.Request == wanted.demand.Request &&
			c.demand.ShareMiB == wanted.demand.ShareMiB && slices.Equal(c.types.Names(), wanted.types.Names())
	})
	if at < 0 {
		at = len(f.classes)
		f.classes = append(f.classes, &wanted)
	}
	f.classes[at].pods++
}

func milliCPUOf(pod *corev1.Pod) int64 {
	requests := amounts.Requests(pod)
	return requests.Cpu().MilliValue()
}

// add counts a pod that got its node, and removePod one that left it.
func (f *fragments) add(pod *corev1.Pod)    { f.change(pod, 1) }
func (f *fragments) remove(pod *corev1.Pod) { f.change(pod, -1) }

func (f *fragments) change(pod *corev1.Pod, sign int64) {
	n, ok := f.nodes[pod.Spec.NodeName]
	if !ok {
		return
	}
	n.milliCPU -= sign * milliCPUOf(pod)
	for i, milli := range n.heldBy(pod) {
		n.free[i] -= sign * milli
	}
	f.count(n)
}

// heldBy returns what a pod holds of each GPU.
func (n *gpuNode) heldBy(pod *corev1.Pod) []int64 {
	held := make([]int64, len(n.cards))
	assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return held // another scheduler's, with unknown GPUs
	}
	for _, devices := range assignment {
		for _, device := range devices {
			at := slices.IndexFunc(n.cards, func(card gpu.Card) bool { return card.UUID == device.UUID })
			switch {
			case at < 0:
			case device.MemoryMiB == 0 || n.cards[at].ShareableMiB() == 0:
				held[at] = gpu.MilliPerCard
			default:
				held[at] = min(gpu.MilliPerCard, held[at]+device.MemoryMiB*gpu.MilliPerCard/n.cards[at].ShareableMiB())
			}
		}
	}
	return held
}

// count counts a node again.
func (f *fragments) count(n *gpuNode) {
	f.total -= n.waste
	n.waste = 0
	for _, class := range n.classes {
		n.waste += float64(n.wastedBy(class)) * class.pods / n.pods
	}
	f.total += n.waste
}

// wastedBy is how much of the free GPUs a pod of a class could not use, in thousandths of one.
func (n *gpuNode) wastedBy(class *gpuClass) int64 {
	free, rests, room := int64(0), int64(0), int64(0)
	for i, left := range n.free {
		left = max(left, 0)
		free += left
		asked := int64(gpu.MilliPerCard)
		if class.demand.Shared > 0 && n.cards[i].ShareableMiB() > 0 {
			asked = class.demand.ShareMiB * gpu.MilliPerCard / n.cards[i].ShareableMiB()
		}
		if left >= asked {
			room++
		} else {
			rests += left
		}
	}
	if room < class.demand.Whole+class.demand.Shared || class.milliCPU > n.milliCPU {
		return free
	}
	return rests
}
