package inventory

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// Node is one node with its GPUs.
type Node struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// GPUType is the model of the node's GPUs, "" if unknown.
	GPUType string `json:"gpuType,omitempty"`
	GPUs    GPUs   `json:"gpus"`
	// SharedGPUs counts the slots on shared GPUs; nil on a node that offers none.
	SharedGPUs *GPUs `json:"sharedGPUs,omitempty"`
	// Slots counts the parts in which a device plugin offers the node's GPUs under the name of whole ones; nil on a node whose GPUs are whole. GPUs
	// then counts the GPUs behind them. Each that could be in use counts as used, since it is unknown which parts belong to one.
	Slots *Slots `json:"gpuSlots,omitempty"`
	// Broken are the GPUs that are not allocated, as their agent found them.
	Broken []BrokenGPU `json:"brokenGPUs,omitempty"`
	// Slices are the MIG slices that the node's agent reports, with their holders.
	Slices []gpu.Slice `json:"slices,omitempty"`
	// MemoryPerGPU is a quantity such as 80Gi, of the largest if they differ, "" if unknown.
	MemoryPerGPU string `json:"memoryPerGPU,omitempty"`
	// ShareablePerGPU is how much of that shares can hold, as the driver keeps the rest; "" where GPUs are not shared.
	ShareablePerGPU string `json:"shareablePerGPU,omitempty"`
	// SharedMemory is how much of that shares can hold of all GPUs that are healthy, and how much they hold; nil where GPUs are not shared, or unknown.
	SharedMemory *Capacity `json:"sharedMemory,omitempty"`
	Interconnect string    `json:"interconnect,omitempty"`
	Rack         string    `json:"rack,omitempty"`
	Ready        bool      `json:"ready"`
	// Cordoned nodes take no new pods.
	Cordoned bool `json:"cordoned"`
	// States are the controllers' states of the node, such as suspect, and since when.
	States []nodestate.State `json:"states,omitempty"`
	// Violations are the constraints of its pool that the node breaks, where they are known.
	Violations []nodestate.Violation `json:"-"`
	CPU        Capacity              `json:"cpu"`
	Memory     Capacity              `json:"memory"`
	// Pods is the number of pods that run or will run here.
	Pods int `json:"pods"`
	// MIG counts the slices that the node offers to pods, by profile.
	MIG []ProfileCount `json:"mig,omitempty"`
	// Labels and Conditions are the node's own: describing it shows them, and labels say where it lies. Note is the description that it carries for its pool.
	Labels     map[string]string      `json:"-"`
	Conditions []corev1.NodeCondition `json:"-"`
	Note       string                 `json:"-"`
	// InvalidPods are the pods, as namespace/name, with an unreadable GPU request, which is not in Used.
	InvalidPods []string `json:"invalidPods,omitempty"`
}

// Slots are parts of GPUs, of which a pod gets one.
type Slots struct {
	GPUs
	// Sharing is by what the GPUs are divided: time-slicing, mps, or mig and the profile.
	Sharing string `json:"sharing"`
}

// Capacity is an amount of CPU or memory.
type Capacity struct {
	Allocatable resource.Quantity `json:"allocatable"`
	// Requested is the sum of what pods ask, which is what schedulers count.
	Requested resource.Quantity `json:"requested"`
}

// Add is the sum of two. Neither is changed.
func (c Capacity) Add(other Capacity) Capacity {
	allocatable, requested := c.Allocatable.DeepCopy(), c.Requested.DeepCopy()
	allocatable.Add(other.Allocatable)
	requested.Add(other.Requested)
	return Capacity{Allocatable: allocatable, Requested: requested}
}

// IsSchedulable reports whether the node takes new pods.
func (n Node) IsSchedulable() bool {
	return n.Ready && !n.Cordoned && !slices.ContainsFunc(n.States, nodestate.State.ClosesNode)
}

// Is reports whether the node has a state.
func (n Node) Is(code nodestate.Code) bool {
	return slices.ContainsFunc(n.States, func(state nodestate.State) bool { return state.Code == code })
}

func buildNodes(nodes []corev1.Node, pods []corev1.Pod, pools []names.GPUPool) []Node {
	podsOf := fit.ByNode(pods)
	constraints := make(map[string]names.PoolConstraints, len(pools))
	for i := range pools {
		constraints[pools[i].Name] = pools[i].Spec.Constraints
	}
	out := make([]Node, 0, len(nodes))
	var topologies gpu.Topologies
	for i := range nodes {
		node := buildNode(&nodes[i], podsOf[nodes[i].Name], &topologies)
		node.Violations = nodestate.BrokenConstraints(constraints[node.Pool], node.poolOffer(&nodes[i]))
		node.States = nodestate.StatesOf(&nodes[i], node.Violations)
		out = append(out, node)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func buildNode(node *corev1.Node, pods []*corev1.Pod, topologies *gpu.Topologies) Node {
	judged := fit.NewNode(node, pods, topologies)
	out := Node{
		Name:         node.Name,
		Pool:         gpu.PoolOf(node),
		GPUType:      gpu.TypeOf(node),
		MemoryPerGPU: memoryPerGPU(judged.GPUMemory()),
		Interconnect: gpu.InterconnectOf(node),
		Rack:         node.Labels[names.LabelRack],
		Ready:        fit.IsReady(node),
		Cordoned:     node.Spec.Unschedulable,
		Pods:         len(pods),
		Labels:       node.Labels,
		Conditions:   node.Status.Conditions,
		Note:         node.Annotations[names.AnnotationDescription],
	}
	var shared GPUs
	out.GPUs.Allocatable = resourceCount(node.Status.Allocatable, names.ResourceGPU)
	shared.Allocatable = resourceCount(node.Status.Allocatable, names.ResourceSharedGPU)
	out.CPU.Allocatable = node.Status.Allocatable.Cpu().DeepCopy()
	out.Memory.Allocatable = node.Status.Allocatable.Memory().DeepCopy()
	for _, pod := range pods {
		requests := amounts.Requests(pod)
		out.CPU.Requested.Add(*requests.Cpu())
		out.Memory.Requested.Add(*requests.Memory())
		request, err := gpu.RequestOf(pod)
		if err != nil {
			out.InvalidPods = append(out.InvalidPods, podName(pod).String())
			continue
		}
		out.GPUs.Used = amounts.Add(out.GPUs.Used, request.Whole)
		shared.Used = amounts.Add(shared.Used, request.Shared)
	}
	out.MIG = CountProfiles(judged, pods)
	if fit.IsOpen(node) {
		out.GPUs.Free, shared.Free = judged.FreeGPUs(), judged.FreeSlots()
	}
	out.GPUs.Unhealthy, out.Slices = judged.UnhealthyGPUs(), gpu.HeldSlices(node, pods)
	if out.GPUs.Unhealthy > 0 || judged.InMIGMode() || len(out.Slices) > 0 { // most nodes are not parsed twice
		out.Broken = brokenGPUsOn(node)
	}
	out.countSlots(judged.GPUSlot())
	if !shared.isZero() {
		out.SharedGPUs, out.ShareablePerGPU, out.SharedMemory = &shared, memoryPerGPU(judged.ShareableMemory()), sharedMemory(judged)
	}
	slices.Sort(out.InvalidPods)
	return out
}

// countSlots corrects GPUs to count GPUs where it counted parts of them.
func (n *Node) countSlots(slot gpu.Slot) {
	if slot.IsWhole() {
		return
	}
	n.Slots = &Slots{GPUs: n.GPUs, Sharing: slot.Sharing}
	n.GPUs.Allocatable, n.GPUs.Used = slot.GPUsForSlots(n.Slots.Allocatable), slot.GPUsForSlots(n.Slots.Used)
	n.GPUs.Free = min(slot.WholeGPUs(n.Slots.Free), max(n.GPUs.Allocatable-n.GPUs.Used, 0))
}

// poolOffer is what a pool may ask of the node.
func (n Node) poolOffer(object *corev1.Node) nodestate.Offer {
	out := nodestate.Offer{
		GPUType: n.GPUType, Region: object.Labels[corev1.LabelTopologyRegion], Zone: object.Labels[corev1.LabelTopologyZone],
		GPUs: n.GPUs.Allocatable, CPU: n.CPU.Allocatable, Memory: n.Memory.Allocatable,
	}
	if memory, err := resource.ParseQuantity(n.MemoryPerGPU); err == nil {
		out.GPUMemory = &memory
	}
	return out
}

func resourceCount(list corev1.ResourceList, name corev1.ResourceName) int64 {
	quantity := list[name]
	return quantity.Value()
}

// memoryPerGPU writes MiB as a quantity.
func memoryPerGPU(mib int64) string {
	if mib == 0 {
		return ""
	}
	return resource.NewQuantity(mib<<20, resource.BinarySI).String()
}

// sharedMemory is the memory that the shares of a node can hold, and hold; nil if unknown.
func sharedMemory(node *fit.Node) *Capacity {
	all, held := node.SharedMemory()
	if all == 0 {
		return nil
	}
	return &Capacity{Allocatable: *resource.NewQuantity(all<<20, resource.BinarySI), Requested: *resource.NewQuantity(held<<20, resource.BinarySI)}
}

func podName(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// NodeLabel is one label of one node.
type NodeLabel struct {
	Node  string `json:"node"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func buildNodeLabels(nodes []corev1.Node) []NodeLabel {
	var out []NodeLabel
	for i := range nodes {
		for key, value := range nodes[i].Labels {
			out = append(out, NodeLabel{Node: nodes[i].Name, Key: key, Value: value})
		}
	}
	slices.SortFunc(out, func(a, b NodeLabel) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Key, b.Key)) })
	return out
}
