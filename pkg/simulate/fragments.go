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
	gpus     []gpu.GPU
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
		f.addExpectedPod(pod)
	}
	for _, node := range nodes {
		inventory, _ := gpu.InventoryOf(node) // the count is correct in either case
		n := &gpuNode{milliCPU: node.Status.Allocatable.Cpu().MilliValue()}
		for _, card := range inventory.GPUs {
			if card.Health == gpu.Healthy {
				n.gpus, n.free = append(n.gpus, card), append(n.free, gpu.MilliPerGPU)
			}
		}
		if len(n.gpus) == 0 {
			continue
		}
		for _, class := range f.classes {
			if class.pool == gpu.PoolOf(node) && class.types.MatchesNode(node) {
				n.classes, n.pods = append(n.classes, class), n.pods+class.pods
			}
		}
		f.nodes[node.Name] = n
		f.recountNode(n)
	}
	return f
}

// addExpectedPod adds a pod to the workload.
func (f *fragments) addExpectedPod(pod *corev1.Pod) {
	demand, err := gpu.DemandOf(pod)
	types, typesErr := gpu.PodTypes(pod)
	if err != nil || typesErr != nil || !demand.NeedsGPUs() {
		return
	}
	wanted := gpuClass{pool: gpu.PodPool(pod), types: types, demand: demand, milliCPU: podMilliCPU(pod)}
	at := slices.IndexFunc(f.classes, func(c *gpuClass) bool {
		return c.pool == wanted.pool && c.milliCPU == wanted.milliCPU && c.demand.Request == wanted.demand.Request &&
			c.demand.ShareMiB == wanted.demand.ShareMiB && slices.Equal(c.types.AcceptedNames(), wanted.types.AcceptedNames())
	})
	if at < 0 {
		at = len(f.classes)
		f.classes = append(f.classes, &wanted)
	}
	f.classes[at].pods++
}

func podMilliCPU(pod *corev1.Pod) int64 {
	requests := amounts.Requests(pod)
	return requests.Cpu().MilliValue()
}

// addPod counts a pod that got its node, and removePod one that left it.
func (f *fragments) addPod(pod *corev1.Pod)    { f.updateFree(pod, 1) }
func (f *fragments) removePod(pod *corev1.Pod) { f.updateFree(pod, -1) }

func (f *fragments) updateFree(pod *corev1.Pod, sign int64) {
	n, ok := f.nodes[pod.Spec.NodeName]
	if !ok {
		return
	}
	n.milliCPU -= sign * podMilliCPU(pod)
	for i, milli := range n.heldMilli(pod) {
		n.free[i] -= sign * milli
	}
	f.recountNode(n)
}

// heldMilli returns what a pod holds of each GPU.
func (n *gpuNode) heldMilli(pod *corev1.Pod) []int64 {
	held := make([]int64, len(n.gpus))
	assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return held // another scheduler's, with unknown GPUs
	}
	for _, devices := range assignment {
		for _, device := range devices {
			at := slices.IndexFunc(n.gpus, func(card gpu.GPU) bool { return card.UUID == device.UUID })
			switch {
			case at < 0:
			case device.MemoryMiB == 0 || n.gpus[at].ShareableMiB() == 0:
				held[at] = gpu.MilliPerGPU
			default:
				held[at] = min(gpu.MilliPerGPU, held[at]+device.MemoryMiB*gpu.MilliPerGPU/n.gpus[at].ShareableMiB())
			}
		}
	}
	return held
}

// recountNode counts a node again.
func (f *fragments) recountNode(n *gpuNode) {
	f.total -= n.waste
	n.waste = 0
	for _, class := range n.classes {
		n.waste += float64(n.wastedMilli(class)) * class.pods / n.pods
	}
	f.total += n.waste
}

// wastedMilli is how much of the free GPUs a pod of a class could not use, in thousandths of one.
func (n *gpuNode) wastedMilli(class *gpuClass) int64 {
	free, rests, room := int64(0), int64(0), int64(0)
	for i, left := range n.free {
		left = max(left, 0)
		free += left
		asked := int64(gpu.MilliPerGPU)
		if class.demand.Shared > 0 && n.gpus[i].ShareableMiB() > 0 {
			asked = class.demand.ShareMiB * gpu.MilliPerGPU / n.gpus[i].ShareableMiB()
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
