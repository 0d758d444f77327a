package gpu

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

// DevicesOf returns the devices of all containers of a pod from its annotation, by index, each once; none if the annotation is unreadable.
func DevicesOf(pod *corev1.Pod) []Device {
	assignment, err := ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return nil
	}
	var devices []Device
	for _, of := range assignment {
		devices = append(devices, of...)
	}
	slices.SortFunc(devices, func(a, b Device) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID)) })
	return slices.CompactFunc(devices, func(a, b Device) bool { return a.UUID == b.UUID })
}

// BrokenGPUsOn returns the GPUs of a node that must not be used, by index, including those in MIG mode. It is empty for a node that does not report its
// GPUs.
func BrokenGPUsOn(node *corev1.Node) []GPU {
	inventory, _ := InventoryOf(node) // another check reports what cannot be read
	all := inventory.GPUs
	for i := range inventory.Sliced {
		all = append(all, inventory.Sliced[i].GPU)
	}
	broken := slices.DeleteFunc(all, func(card GPU) bool { return card.Health == Healthy })
	return withSlicedGPUs(broken, SlicesOf(node))
}

// withSlicedGPUs adds the GPUs of broken slices, which is all that an older agent reports about them.
func withSlicedGPUs(broken []GPU, of []Slice) []GPU {
	for i := range of {
		known := slices.ContainsFunc(broken, func(card GPU) bool { return card.UUID == of[i].ParentUUID })
		if of[i].Health != Healthy && !known {
			broken = append(broken, GPU{UUID: of[i].ParentUUID, Index: of[i].GPU, Health: of[i].Health, Since: of[i].Since})
		}
	}
	slices.SortStableFunc(broken, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	return broken
}

// BrokenGPUsUnder returns, by index, the GPUs that a pod uses and that must not be used any longer. There are none where another program allocates the
// GPUs, and gpu-agent only reports them: which ones a pod has is not known there.
func BrokenGPUsUnder(node *corev1.Node, pod *corev1.Pod) []GPU {
	if ready := condition.OfNode(node, names.ConditionAgentReady); ready != nil && ready.Reason == names.ReasonReporting {
		return nil
	}
	var held []string
	for _, device := range DevicesOf(pod) {
		held = append(held, device.UUID)
	}
	for _, slice := range SlicesUnder(node, pod.UID, ChosenSlices(pod)) {
		held = append(held, slice.ParentUUID)
	}
	if len(held) == 0 {
		return nil
	}
	return slices.DeleteFunc(BrokenGPUsOn(node), func(card GPU) bool { return !slices.Contains(held, card.UUID) })
}
