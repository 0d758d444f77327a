package gpuscore

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// nodeState is everything of a node that GPUFilter's verdict on it and its score depend on, except the replicas of the pod's job. Nodes of equal
// state have the same score for every pod, so one of them is evaluated for all. Anything else of a node that a verdict or a score begins to use
// must be added here.
type nodeState struct {
	// gpus is a handle, since thousands of nodes share one: it is hashed when a node is read, and not for each pod.
	gpus unique.Handle[gpuState]
	host hostState
}

// gpuState is the part of it that the verdict depends on, and that LeastFragmentation weighs against CPU and memory. There are few of these even
// if all hosts differ.
type gpuState struct {
	// build and cards are the node's cards and what of them is in use.
	build *gpu.Hardware
	cards gpu.State
	// derived says that only the number of cards is known.
	derived bool
	labels  nodeLabels
	// offered and asked are counts by the kubelet and by the pods: whole GPUs, slots on shared ones, and MIG slices.
	offered, asked [3]int64
}

// hostState is the CPU and the memory that the node has, and how much of it no pod has asked for.
type hostState struct{ milliCPU, memoryMiB, leftMilliCPU, leftMemoryMiB int64 }

// nodeLabels are what a node says of its GPUs.
type nodeLabels struct {
	pool, interconnect string
	// types are the values of names.GPUTypeLabels, in their order. A node has few of these labels: those beyond the third are one value.
	types [4]string
}

// stateOfNode reads a node.
func (p *Plugin) stateOfNode(info fwk.NodeInfo) nodeState {
	allocator, used, reported := p.Devices.NodeGPUs(info)
	all := info.GetAllocatable()
	s := nodeState{
		gpus: unique.Make(gpuState{
			build: allocator.Hardware(), cards: used.State(), derived: !reported, labels: labelsOf(info.Node()),
			offered: countsOf(all), asked: countsOf(info.GetRequested()),
		}),
		host: hostState{milliCPU: all.GetMilliCPU(), memoryMiB: all.GetMemory() >> 20},
	}
	s.host.leftMilliCPU, s.host.leftMemoryMiB = observe.LeftOf(info)
	return s
}

func labelsOf(node *corev1.Node) nodeLabels {
	l := nodeLabels{pool: gpu.PoolOf(node), interconnect: gpu.InterconnectOf(node)}
	found := 0
	for _, label := range names.GPUTypeLabels {
		if value := node.Labels[label]; value != "" && found < len(l.types)-1 {
			l.types[found] = value
			found++
		} else if value != "" {
			l.types[found] += "/" + value // no value has a slash in it
		}
	}
	return l
}

func countsOf(r fwk.Resource) [3]int64 {
	counts := r.GetScalarResources()
	return [3]int64{counts[names.ResourceGPU], counts[names.ResourceSharedGPU], migSlices(counts)}
}
