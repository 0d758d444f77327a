package gpu

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Holding is what one pod holds of a node's GPUs. Positions refer to one inventory: when the inventory changes, holdings are resolved again. The zero
// value holds nothing.
type Holding struct {
	// Whole are the GPUs that the pod has for itself.
	Whole Set
	// Shared are the GPUs of which it has some memory.
	Shared Set
	// ShareMiB is the memory of one slot on a shared GPU.
	ShareMiB int64
	// slots is the number of slots on each shared GPU, one for each container at the same time.
	slots [MaxGPUs]uint8
	// Unknown is what the pod holds on unidentified GPUs.
	Unknown Unknown
}

// Unknown is what is held on unidentified GPUs, by pods that another scheduler placed.
type Unknown struct {
	// Whole is the number of GPUs held whole.
	Whole int64
	// Shared is the number of GPUs that may be shared, at the most.
	Shared int64
	// ShareMiB is the memory that may be held on any one GPU, at the most.
	ShareMiB int64
}

// MemoryOn returns the memory in MiB that the pod holds on a shared GPU.
func (h *Holding) MemoryOn(card int) int64 { return int64(h.slots[card]) * h.ShareMiB }

// UnknownHolding returns the holding of a pod with demand d and unknown GPUs.
func UnknownHolding(d *Demand) Holding {
	shared, perCard := min(d.Shared, MaxGPUs+1), int64(0)
	for i := range d.Containers {
		asked := min(d.Containers[i].Shared, MaxGPUs+1)
		shared = max(shared, asked)
		if asked > 0 {
			perCard += min(max(d.ShareMiB, 0), maxMemoryMiB)
		}
	}
	// One GPU more than any node has already means all of them. The cap keeps every sum exact, so that
	// removing the pod undoes adding it.
	return Holding{Unknown: Unknown{Whole: min(d.wholePeak(), MaxGPUs+1), Shared: shared, ShareMiB: perCard}}
}

// HoldingOf returns what a pod that is bound to the node holds: the GPUs of its annotation g8s.host/gpu-devices, or [UnknownHolding] without a valid
// one. The error describes what is wrong with the annotation; the holding is correct to count in either case.
//
// A pod cannot gain by its annotations: without a request for GPUs it holds none, and a share of unreadable size counts as all of a GPU.
func (a *Allocator) HoldingOf(pod *corev1.Pod) (Holding, error) {
	demand, _ := specDemand(pod) // on error it requests more than any node has, and counts as such
	if demand.ShareMiB, _ = annotatedMiB(pod.Annotations, names.AnnotationGPUShare); demand.ShareMiB == 0 {
		demand.ShareMiB = maxMemoryMiB
	}
	text, ok := pod.Annotations[names.AnnotationGPUDevices]
	if !ok || !demand.NeedsGPUs() {
		return UnknownHolding(&demand), nil
	}
	holding, err := a.resolveText(&demand, text)
	if err != nil {
		return UnknownHolding(&demand), fmt.Errorf("reading annotation %s: %w", names.AnnotationGPUDevices, err)
	}
	return holding, nil
}

func (a *Allocator) resolveText(d *Demand, text string) (Holding, error) {
	assignment, err := ParseAssignment(text) // which has checked it
	if err != nil {
		return Holding{}, err
	}
	if len(assignment) == 0 {
		return Holding{}, errors.New("it names slices and no cards")
	}
	return a.resolveValid(d, assignment)
}
