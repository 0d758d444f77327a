package gpu

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Holding is what one pod holds of a node's cards. Positions are those of one inventory: when that
// changes, holdings are resolved again. The zero value holds nothing.
type Holding struct {
	// Whole are the cards that the pod has for itself.
	Whole Set
	// Shared are the cards of which it has some memory.
	Shared Set
	// ShareMiB is the memory of one slot on a shared card.
	ShareMiB int64
	// slots is the number of slots on each shared card, one for each container at the same time.
	slots [MaxCards]uint8
	// Unknown is what the pod holds on cards that we cannot name.
	Unknown Unknown
}

// Unknown is what is held on cards that we cannot name, by pods that another scheduler placed.
type Unknown struct {
	// Whole is the number of cards held whole.
	Whole int64
	// Shared is the number of cards that may be shared, at the most.
	Shared int64
	// ShareMiB is the memory that may be held on any one card, at the most.
	ShareMiB int64
}

// MemoryOn returns the memory in MiB that the pod holds on a shared card.
func (h *Holding) MemoryOn(card int) int64 { return int64(h.slots[card]) * h.ShareMiB }

// UnknownHolding returns what a pod holds that asks d and of which no cards are known.
func UnknownHolding(d *Demand) Holding {
	shared, perCard := min(d.Shared, MaxCards+1), int64(0)
	for i := range d.Containers {
		asked := min(d.Containers[i].Shared, MaxCards+1)
		shared = max(shared, asked)
		if asked > 0 {
			perCard += min(max(d.ShareMiB, 0), maxMemoryMiB)
		}
	}
	// One card more than any node has already means all of them. The cap keeps every sum exact, so that
	// removing the pod undoes adding it.
	return Holding{Unknown: Unknown{Whole: min(d.wholePeak(), MaxCards+1), Shared: shared, ShareMiB: perCard}}
}

// HoldingOf returns what a pod that is bound to the node holds: the cards of its annotation
// g8s.host/gpu-devices, or [UnknownHolding] where it has none that is valid. The error tells what is wrong
// with the annotation; the holding is right to count either way.
//
// A pod cannot gain by its annotations: without a request for cards it holds none, and a share whose size
// cannot be read counts as all of a card.
func (a *Allocator) HoldingOf(pod *corev1.Pod) (Holding, error) {
	demand, _ := specDemand(pod) // on error it asks more than any node has, and so it counts
	if demand.ShareMiB, _ = annotatedMiB(pod.Annotations, names.AnnotationGPUShare); demand.ShareMiB == 0 {
		demand.ShareMiB = maxMemoryMiB
	}
	text, ok := pod.Annotations[names.AnnotationGPUDevices]
	if !ok || !demand.NeedsCards() {
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
	return a.resolve(d, assignment)
}
