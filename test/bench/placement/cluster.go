// Package placement is the placement benchmark of Weng et al., USENIX ATC'23: pods of a trace arrive one by one at an
// empty cluster and stay, a policy chooses the node and the GPU for each, and what counts is how many GPUs are
// allocated when pods have asked for as many as there are. It holds the protocol, the policies that it compares, and
// the measures, all as pure functions of a trace and a seed.
package placement

import (
	"math"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// MaxGPUs is the most GPUs of one node.
const MaxGPUs = 8

// maxPods is how many pods a node of the published experiments takes.
const maxPods = 1001

// Node is a machine with what is left of it.
type Node struct {
	*trace.Node
	// MilliCPU and MemoryMiB are what is left.
	MilliCPU, MemoryMiB int64
	// Free is what is left of each GPU, in thousandths.
	Free [MaxGPUs]int64
	Pods int
	// Kinds counts the pods with GPUs on the node: at 0 those that share one, at k those of k whole ones.
	Kinds [MaxGPUs + 1]int
	// Version counts the changes.
	Version int
}

// newCluster returns empty nodes in a given order. It is the order in which equals are taken.
func newCluster(specs []trace.Node) []Node {
	nodes := make([]Node, len(specs))
	for i := range specs {
		nodes[i] = Node{Node: &specs[i], MilliCPU: specs[i].MilliCPU, MemoryMiB: specs[i].MemoryMiB}
		for card := range min(specs[i].GPUs, MaxGPUs) {
			nodes[i].Free[card] = trace.MilliPerGPU
		}
	}
	return nodes
}

// FreeGPU is what is left of all GPUs together, in thousandths of one.
func (n *Node) FreeGPU() int64 {
	sum := int64(0)
	for _, free := range n.Free {
		sum += free
	}
	return sum
}

// WholeFree is the number of GPUs that nobody uses.
func (n *Node) WholeFree() int64 {
	count := int64(0)
	for _, free := range n.Free {
		if free == trace.MilliPerGPU {
			count++
		}
	}
	return count
}

// Fits says whether a pod can run on the node: Kubernetes' filters, and those of the published simulator.
func (n *Node) Fits(pod *trace.Pod) bool {
	return pod.MilliCPU <= n.MilliCPU && pod.MemoryMiB <= n.MemoryMiB && n.Pods < maxPods && n.fitsGPUs(pod)
}

func (n *Node) fitsGPUs(pod *trace.Pod) bool {
	if pod.GPUs == 0 {
		return true
	}
	if len(pod.Models) > 0 && !slices.Contains(pod.Models, n.Model) {
		return false
	}
	room := int64(0)
	for _, free := range n.Free {
		if free >= pod.MilliGPU {
			room++
		}
	}
	return room >= pod.GPUs
}

// Cards are the positions of GPUs, one bit each.
type Cards uint8

// tightest returns the GPUs with the least left that suffice for a pod, the first of equals.
func (n *Node) tightest(pod *trace.Pod) Cards {
	var chosen Cards
	for range pod.GPUs {
		best, left := -1, int64(math.MaxInt64)
		for card, free := range n.Free {
			if free >= pod.MilliGPU && free < left && chosen&(1<<card) == 0 {
				best, left = card, free
			}
		}
		if best < 0 {
			return 0
		}
		chosen |= 1 << best
	}
	return chosen
}

// With returns the node with a pod on some of its GPUs.
func (n *Node) With(pod *trace.Pod, cards Cards) Node {
	after := *n
	after.place(pod, cards)
	return after
}

func (n *Node) place(pod *trace.Pod, cards Cards) { n.change(pod, cards, 1) }

func (n *Node) remove(pod *trace.Pod, cards Cards) { n.change(pod, cards, -1) }

func (n *Node) change(pod *trace.Pod, cards Cards, sign int64) {
	n.MilliCPU -= sign * pod.MilliCPU
	n.MemoryMiB -= sign * pod.MemoryMiB
	n.Pods += int(sign)
	if pod.GPUs > 0 {
		n.Kinds[kindOf(pod)] += int(sign)
	}
	for card := range n.Free {
		if cards&(1<<card) != 0 {
			n.Free[card] -= sign * pod.MilliGPU
		}
	}
	n.Version++
}

// kindOf tells pods with GPUs apart as GPU clustering does.
func kindOf(pod *trace.Pod) int64 {
	if pod.MilliGPU < trace.MilliPerGPU {
		return 0
	}
	return min(pod.GPUs, MaxGPUs)
}
