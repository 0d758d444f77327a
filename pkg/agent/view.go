package agent

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// View is the node's GPUs at one moment.
type View struct {
	Fleet hardware.Fleet
	// Known is true once the driver has listed the GPUs, or has failed to for too long.
	Known bool
	// Health is [gpu.Healthy] or one word for what is wrong, by UUID of the GPU.
	Health map[string]string
	// SlotsPerGPU is how many slots a shared GPU has, 0 where GPUs are not shared.
	SlotsPerGPU int
}

// OfferedGPUs returns the devices that can be allocated, by UUID.
func (v *View) OfferedGPUs() map[string]binding.GPU {
	offered := map[string]binding.GPU{}
	for i := range v.Fleet.GPUs {
		card := &v.Fleet.GPUs[i]
		if card.MIG {
			for _, slice := range card.Slices {
				offered[slice.UUID] = binding.GPU{
					Resource: names.ResourceMIGPrefix + slice.Profile, ParentUUID: card.UUID, Index: card.Index, MemoryMiB: slice.MemoryMiB,
					Health: v.Health[card.UUID],
				}
			}
			continue
		}
		one := binding.GPU{Resource: names.ResourceGPU, Index: card.Index, MemoryMiB: card.MemoryMiB, Health: v.Health[card.UUID]}
		if v.SlotsPerGPU > 0 {
			one.Shared = names.ResourceSharedGPU
		}
		offered[card.UUID] = one
	}
	return offered
}

// offersByResource returns what there is of each resource.
func (v *View) offersByResource() map[string]*offer {
	offers := map[string]*offer{}
	add := func(resource, uuid string, perUnit int, healthy bool) {
		if offers[resource] == nil {
			offers[resource] = &offer{units: map[string]bool{}, perUnit: perUnit}
		}
		offers[resource].units[uuid] = healthy
	}
	for uuid, card := range v.OfferedGPUs() {
		add(card.Resource, uuid, 1, card.Health == gpu.Healthy)
		if card.Shared != "" {
			add(card.Shared, uuid, v.SlotsPerGPU, card.Health == gpu.Healthy)
		}
	}
	return offers
}

// Resources returns the names of all that is offered, sorted.
func (v *View) Resources() []string { return slices.Sorted(maps.Keys(v.offersByResource())) }

// Inventory returns the inventory for the scheduler: the GPUs that can be allocated whole, and those in MIG mode with their slices, with their
// health.
func (v *View) Inventory() gpu.Inventory {
	var inventory gpu.Inventory
	whole := map[int]bool{}
	for i := range v.Fleet.GPUs {
		card := &v.Fleet.GPUs[i]
		told := gpu.GPU{
			UUID: card.UUID, Index: card.Index, MemoryMiB: card.MemoryMiB, ReservedMiB: card.ReservedMiB, Product: productName(card), NUMANode: card.NUMANode,
			PCIeSwitch: card.PCIeSwitch, Health: v.Health[card.UUID],
		}
		if card.MIG {
			inventory.Sliced = append(inventory.Sliced, gpu.SlicedGPU{GPU: told, Slices: gpuSlices(card)})
			continue
		}
		whole[card.Index] = true
		inventory.GPUs = append(inventory.GPUs, told)
	}
	for _, link := range v.Fleet.Links {
		link.GPUs = slices.DeleteFunc(slices.Clone(link.GPUs), func(index int) bool { return !whole[index] })
		if len(link.GPUs) > 1 {
			inventory.Links = append(inventory.Links, link)
		}
	}
	return inventory
}

func gpuSlices(card *hardware.GPU) []gpu.GPUSlice {
	var out []gpu.GPUSlice
	for _, slice := range card.Slices {
		out = append(out, gpu.GPUSlice(slice))
	}
	return out
}

// Slices returns the published MIG slices, with the pod that has each by the records.
func (v *View) Slices(records []binding.Record) []gpu.Slice {
	pods := map[string]types.UID{}
	for i := range records {
		for _, uuid := range records[i].UUIDs() {
			pods[uuid] = records[i].Pod
		}
	}
	var out []gpu.Slice
	for i := range v.Fleet.GPUs {
		card := &v.Fleet.GPUs[i]
		for _, slice := range card.Slices {
			out = append(out, gpu.Slice{
				UUID: slice.UUID, Profile: slice.Profile, ParentUUID: card.UUID, GPU: card.Index, MemoryMiB: slice.MemoryMiB,
				Health: v.Health[card.UUID], Pod: pods[slice.UUID],
			})
		}
	}
	slices.SortFunc(out, func(a, b gpu.Slice) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.UUID, b.UUID)) })
	return out
}

// SickGPUs returns the GPUs that must not be used, by index.
func (v *View) SickGPUs() []hardware.GPU {
	var sick []hardware.GPU
	for i := range v.Fleet.GPUs {
		if v.Health[v.Fleet.GPUs[i].UUID] != gpu.Healthy {
			sick = append(sick, v.Fleet.GPUs[i])
		}
	}
	return sick
}

func sortByIndex(cards []hardware.GPU) []hardware.GPU {
	slices.SortFunc(cards, func(a, b hardware.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return cards
}
