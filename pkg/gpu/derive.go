package gpu

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// InventoryOf returns a node's inventory: from its annotation, or derived from allocatable and labels when it has none. The inventory is always valid
// and the best that is known. An error describes what was ignored: a malformed annotation, an unreadable label, GPUs beyond [MaxGPUs].
//
// Derived: as many GPUs as allocatable [names.ResourceGPU], all healthy, since allocatable already excludes the bad ones without naming them. A node
// that only offers [names.ResourceSharedGPU] has as many as its labels give. Memory comes from the labels, and what the driver reserves of it is an
// assumption. A node labelled with NVLink is assumed to link all its GPUs by the slowest NVLink there is, so that it never outbids a node that
// measured its own.
//
// Where labels declare that each unit of [names.ResourceGPU] is a part of a GPU, the inventory lists these parts: see [Slot].
func InventoryOf(node *corev1.Node) (Inventory, error) {
	text, ok := node.Annotations[names.AnnotationInventory]
	if !ok {
		return deriveInventory(node)
	}
	inventory, malformed := ParseInventory(text)
	if malformed == nil {
		return inventory, nil
	}
	malformed = fmt.Errorf("reading annotation %s: %w", names.AnnotationInventory, malformed)
	inventory, err := deriveInventory(node)
	return inventory, errors.Join(malformed, err)
}

// TooManyError reports that a node offers more GPUs than [MaxGPUs]. The excess is not allocated.
type TooManyError struct{ Offered int64 }

// Error names the remedy.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("the node offers %d GPUs: only the first %d are used, and %d stay idle. No machine has so many: where they are "+
		"slices of fewer GPUs (time-slicing), let the device plugin offer fewer of each", e.Offered, MaxGPUs, e.Offered-MaxGPUs)
}

func deriveInventory(node *corev1.Node) (Inventory, error) {
	count, countErr := countGPUs(node)
	memory, memoryErr := LabelledMemory(node)
	slot, slotErr := parseSlot(node)
	reserved := (assumedReservedMiB(memory) + slot.perDevice() - 1) / slot.perDevice()
	memory /= slot.perDevice()
	inventory := Inventory{GPUs: make([]GPU, count), Derived: true, Slot: slot}
	indices := make([]int, count)
	for i := range inventory.GPUs {
		inventory.GPUs[i] = GPU{UUID: derivedUUID(i), Index: i, MemoryMiB: memory, ReservedMiB: &reserved, Health: Healthy}
		indices[i] = i
	}
	if count > 1 && slot.IsWhole() && InterconnectOf(node) == names.InterconnectNVLink {
		inventory.Links = []Link{{GPUs: indices, NVLinks: 1}}
	}
	return inventory, errors.Join(countErr, memoryErr, slotErr)
}

// derivedUUID stands for the UUID of a GPU of which only the number is known.
func derivedUUID(index int) string { return "index-" + strconv.Itoa(index) }

// IsDerived reports whether the UUID of a device is unknown: its node had not reported its GPUs when it was chosen.
func (d *Device) IsDerived() bool { return d.UUID == derivedUUID(d.Index) }

// countGPUs returns the number of GPUs, at most [MaxGPUs].
func countGPUs(node *corev1.Node) (int, error) {
	count, err := int64(0), error(nil)
	if allocatable, ok := node.Status.Allocatable[names.ResourceGPU]; ok {
		count = max(allocatable.Value(), 0)
	}
	if slots := node.Status.Allocatable[names.ResourceSharedGPU]; count == 0 && slots.Sign() > 0 {
		count, err = firstNumber(node, maxIndex, names.LabelNVIDIACount, names.LabelCount)
	}
	if count > MaxGPUs {
		return MaxGPUs, &TooManyError{Offered: count}
	}
	return int(count), err
}

// LabelledMemory returns the memory of each GPU in MiB from the labels of a node, 0 if there is none. The measured value, [names.LabelNVIDIAMemory],
// takes precedence over the configured one, [names.LabelMemory].
func LabelledMemory(node *corev1.Node) (int64, error) {
	memory, err := firstNumber(node, maxMemoryMiB, names.LabelNVIDIAMemory)
	if memory > 0 {
		return memory, nil
	}
	value := node.Labels[names.LabelMemory]
	if value == "" {
		return 0, err
	}
	memory, parseErr := parseMiB(value)
	if parseErr != nil {
		return 0, errors.Join(err, fmt.Errorf("reading label %s: %w", names.LabelMemory, parseErr))
	}
	return memory, err
}

// firstNumber reads the first of some labels that holds a number from 1 to limit.
func firstNumber(node *corev1.Node, limit int64, labels ...string) (int64, error) {
	var errs []error
	for _, label := range labels {
		value := node.Labels[label]
		if value == "" {
			continue
		}
		number, err := strconv.ParseInt(value, 10, 64)
		if err == nil && number >= 1 && number <= limit {
			return number, nil
		}
		errs = append(errs, fmt.Errorf("reading label %s: %q is no number from 1 to %d", label, value, limit))
	}
	return 0, errors.Join(errs...)
}
