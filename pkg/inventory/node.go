package inventory

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Node is one node with its GPUs.
type Node struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// GPUType is the model of the node's GPUs, "" when nothing says it.
	GPUType string `json:"gpuType,omitempty"`
	GPUs    GPUs   `json:"gpus"`
	// SharedGPUs counts the slots on shared GPUs; nil on a node that offers none.
	SharedGPUs *GPUs `json:"sharedGPUs,omitempty"`
	// MemoryPerGPU is a quantity such as 80Gi, of the largest if they differ, "" when nothing says it.
	MemoryPerGPU string `json:"memoryPerGPU,omitempty"`
	Interconnect string `json:"interconnect,omitempty"`
	Rack         string `json:"rack,omitempty"`
	Ready        bool   `json:"ready"`
	// Cordoned nodes take no new pods.
	Cordoned bool     `json:"cordoned"`
	CPU      Capacity `json:"cpu"`
	Memory   Capacity `json:"memory"`
	// Pods is the number of pods that run or will run here.
	Pods int `json:"pods"`
	// InvalidPods are the pods, as namespace/name, whose request for GPUs cannot be read and is not in Used.
	InvalidPods []string `json:"invalidPods,omitempty"`
}

// Capacity is an amount of CPU or memory.
type Capacity struct {
	Allocatable resource.Quantity `json:"allocatable"`
	// Requested is the sum of what pods ask, which is what schedulers count.
	Requested resource.Quantity `json:"requested"`
}

// Schedulable reports whether the node takes new pods.
func (n Node) Schedulable() bool { return n.Ready && !n.Cordoned }

func buildNodes(nodes []corev1.Node, pods []corev1.Pod) []Node {
	podsOf := fit.ByNode(pods)
	out := make([]Node, 0, len(nodes))
	var topologies gpu.Topologies
	for i := range nodes {
		out = append(out, buildNode(&nodes[i], podsOf[nodes[i].Name], &topologies))
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
		MemoryPerGPU: memoryPerGPU(judged.CardMemory()),
		Interconnect: gpu.InterconnectOf(node),
		Rack:         node.Labels[names.LabelRack],
		Ready:        fit.IsReady(node),
		Cordoned:     node.Spec.Unschedulable,
		Pods:         len(pods),
	}
	var shared GPUs
	out.GPUs.Allocatable = count(node.Status.Allocatable, names.ResourceGPU)
	shared.Allocatable = count(node.Status.Allocatable, names.ResourceSharedGPU)
	out.CPU.Allocatable = node.Status.Allocatable.Cpu().DeepCopy()
	out.Memory.Allocatable = node.Status.Allocatable.Memory().DeepCopy()
	for _, pod := range pods {
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		out.CPU.Requested.Add(*requests.Cpu())
		out.Memory.Requested.Add(*requests.Memory())
		request, err := gpu.RequestOf(pod)
		if err != nil {
			out.InvalidPods = append(out.InvalidPods, podName(pod).String())
			continue
		}
		out.GPUs.Used = addSaturating(out.GPUs.Used, request.Whole)
		shared.Used = addSaturating(shared.Used, request.Shared)
	}
	if out.Schedulable() {
		out.GPUs.Free, shared.Free = judged.FreeGPUs(), judged.FreeSlots()
	}
	out.GPUs.Unhealthy = judged.UnhealthyCards()
	if !shared.isZero() {
		out.SharedGPUs = &shared
	}
	slices.Sort(out.InvalidPods)
	return out
}

// addSaturating adds two counts; a pod may claim any number, and a wrapped sum would look free.
func addSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func count(list corev1.ResourceList, name corev1.ResourceName) int64 {
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
