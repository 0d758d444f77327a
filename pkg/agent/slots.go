package agent

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
)

// offer is what there is of one resource.
type offer struct {
	// units are the GPUs or slices, and whether each may be allocated.
	units map[string]bool
	// perUnit is how many slots each has.
	perUnit int
}

// buildSlots returns the slots of a resource. A slot stands for no particular GPU, but an unhealthy GPU has to take its slots with it, so that kubelet
// counts fewer: those of the containers that hold the GPU, which cannot continue, else free ones, preferring those of before. Slots of containers
// with other GPUs are left alone: a restarting kubelet ends pods whose slots are unhealthy.
func (o *offer) buildSlots(resource string, before []kubelet.Slot, claims []checkpoint.Claim, records []binding.Record) []kubelet.Slot {
	slots := make([]kubelet.Slot, len(o.units)*o.perUnit)
	for i := range slots {
		slots[i] = kubelet.Slot{ID: kubelet.SlotPrefix + strconv.Itoa(i), Healthy: true}
	}
	sick := 0
	for _, healthy := range o.units {
		if !healthy {
			sick += o.perUnit
		}
	}
	if sick == 0 {
		return slots
	}
	claimed, lost := o.claimedSlots(resource, sick, claims, records)
	for _, slot := range before {
		if !slot.Healthy && !claimed.Has(slot.ID) && lost.Len() < sick {
			lost.Insert(slot.ID)
		}
	}
	for i := len(slots) - 1; i >= 0 && lost.Len() < sick; i-- {
		if !claimed.Has(slots[i].ID) {
			lost.Insert(slots[i].ID)
		}
	}
	for i := range slots {
		slots[i].Healthy = !lost.Has(slots[i].ID)
	}
	return slots
}

// claimedSlots returns the slots that containers have, and those of them that stand for an unhealthy GPU. These are no more than the GPUs have, as
// containers of one pod can have a GPU one after the other, and with other slots.
func (o *offer) claimedSlots(resource string, sick int, claims []checkpoint.Claim, records []binding.Record) (claimed, lost sets.Set[string]) {
	claimed, lost = sets.New[string](), sets.New[string]()
	held := map[string]*binding.Record{}
	for i := range records {
		held[records[i].Name] = &records[i]
	}
	for i := range claims {
		claim := &claims[i]
		if claim.Resource != resource {
			continue
		}
		claimed.Insert(claim.Slots...)
		record := held[claim.Name]
		for j := 0; record != nil && j < min(len(claim.Slots), len(record.Devices)); j++ {
			if healthy, ok := o.units[record.Devices[j].UUID]; ok && !healthy && lost.Len() < sick {
				lost.Insert(claim.Slots[j])
			}
		}
	}
	return claimed, lost
}
