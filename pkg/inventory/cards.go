package inventory

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Card is one GPU of a node, and who has it.
type Card struct {
	Index int `json:"index"`
	// UUID is the driver's; "" for a card that is only known by number.
	UUID string `json:"uuid,omitempty"`
	// MemoryMiB is 0 when nothing says it.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	// Health is [gpu.Healthy], or one word for what is wrong.
	Health string `json:"health"`
	// Holders are the pods that the scheduler gave the card to: one for a whole card, several for a shared one.
	Holders []CardHolder `json:"holders,omitempty"`
}

// CardHolder is a pod that has a card or a part of it.
type CardHolder struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Job       string `json:"job,omitempty"`
	// MemoryMiB is the pod's part of a shared card; 0 is the whole card.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// BuildCards returns the cards of a node in the order of their index. pods are those that hold a place on it. A pod
// that holds GPUs without a choice of the scheduler is on none of the cards: which it has, only the node knows.
func BuildCards(node *corev1.Node, pods []*corev1.Pod) []Card {
	known, _ := gpu.InventoryOf(node) // what is malformed is left out, and reported by the scheduler
	out := make([]Card, len(known.Cards))
	at := make(map[string]int, len(known.Cards))
	for i, card := range known.Cards {
		out[i] = Card{Index: card.Index, UUID: card.UUID, MemoryMiB: card.MemoryMiB, Health: card.Health}
		if known.Derived {
			out[i].UUID = ""
		}
		at[card.UUID] = i
	}
	for _, pod := range pods {
		assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
		if err != nil || terminated(pod) {
			continue
		}
		hold(out, at, pod, assignment)
	}
	for i := range out {
		slices.SortFunc(out[i].Holders, func(a, b CardHolder) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
		})
	}
	return out
}

// hold notes a pod on its cards, once on each: containers that run one after the other take turns.
func hold(cards []Card, at map[string]int, pod *corev1.Pod, assignment gpu.Assignment) {
	held := map[int]int64{}
	for _, devices := range assignment {
		for _, device := range devices {
			if i, ok := at[device.UUID]; ok {
				held[i] = max(held[i], device.MemoryMiB)
			}
		}
	}
	for i, memory := range held {
		cards[i].Holders = append(cards[i].Holders, CardHolder{
			Namespace: pod.Namespace, Pod: pod.Name, Job: pod.Labels[names.LabelJob], MemoryMiB: memory,
		})
	}
}
