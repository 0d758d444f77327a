package usage

import (
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
)

// buildCards returns the GPUs of a node with their holders, as the scheduler counts them.
func buildCards(node *corev1.Node, pods []*corev1.Pod, samples gpumetrics.Samples, topologies *gpu.Topologies) []GPU {
	allocator, _ := gpu.AllocatorOf(node, topologies) // the error describes what was ignored; the rest is valid
	inventory := allocator.Inventory()
	out := make([]GPU, len(inventory.GPUs))
	for i, card := range inventory.GPUs {
		out[i] = newCard(node, card, inventory.Derived)
		sample, _ := samples.SampleFor(out[i].UUID, node.Name, card.Index)
		out[i].Utilization, out[i].MemoryUsedMiB = sample.Utilization, sample.MemoryUsedMiB
		if sample.Utilization != nil {
			out[i].Measured = 1
		}
	}
	var unknown int64
	for _, pod := range pods {
		holding, _ := allocator.HoldingOf(pod) // counted pessimistically if its annotation is invalid
		recordHolding(out, &holding, pod)
		unknown += holding.Unknown.Whole + holding.Unknown.Shared
	}
	for i := range out {
		if out[i].State == Free && unknown > 0 {
			out[i].State = Held
			unknown--
		}
	}
	return out
}

func newCard(node *corev1.Node, card gpu.GPU, derived bool) GPU {
	out := GPU{
		Node: node.Name, Index: card.Index, Pool: gpu.PoolOf(node), GPUType: gpu.TypeOf(node), MemoryMiB: card.MemoryMiB, State: Free,
	}
	if !derived {
		out.UUID = card.UUID
	}
	if card.Health != gpu.Healthy {
		out.State, out.Health = Unhealthy, card.Health
	}
	return out
}

// recordHolding records which GPUs a pod holds.
func recordHolding(cards []GPU, holding *gpu.Holding, pod *corev1.Pod) {
	holder := Holder{Namespace: pod.Namespace, Job: gang.WorkloadOf(pod).JobName(), Pod: pod.Name}
	for i := range cards {
		state := Whole
		switch {
		case holding.Shared.Has(i):
			state = Shared
			cards[i].SharedMiB += holding.MemoryOn(i)
		case !holding.Whole.Has(i):
			continue
		}
		cards[i].Holders = append(cards[i].Holders, holder)
		if cards[i].State != Unhealthy {
			cards[i].State = state
		}
	}
}
