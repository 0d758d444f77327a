package fake

import (
	"cmp"
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const (
	// defaultMemoryMiB is the memory of a GPU if the file gives none.
	defaultMemoryMiB = 40960
	defaultProduct   = "FAKE-40G"
)

// buildFleet returns the GPUs that a file describes.
func (c *Config) buildFleet() hardware.Fleet {
	cards := map[int]hardware.GPU{}
	for i := range c.Count {
		cards[i] = c.regularGPU(i)
	}
	for i := range c.GPUs {
		card := &c.GPUs[i]
		if card.Absent {
			delete(cards, card.Index)
			continue
		}
		base, ok := cards[card.Index]
		if !ok {
			base = c.regularGPU(card.Index)
		}
		cards[card.Index] = card.applyOverrides(base)
	}
	var fleet hardware.Fleet
	for _, card := range cards {
		fleet.GPUs = append(fleet.GPUs, card)
	}
	slices.SortFunc(fleet.GPUs, func(a, b hardware.GPU) int { return cmp.Compare(a.Index, b.Index) })
	fleet.Links = c.buildLinks(fleet.GPUs)
	return fleet
}

// regularGPU returns GPU i of the equal ones.
func (c *Config) regularGPU(i int) hardware.GPU {
	node := 0
	if 2*i >= c.Count {
		node = 1
	}
	card := hardware.GPU{
		UUID: UUID(i), Index: i, Minor: &i, Product: cmp.Or(c.Product, defaultProduct), MemoryMiB: cmp.Or(c.MemoryMiB, defaultMemoryMiB), ReservedMiB: c.ReservedMiB,
	}
	if !c.Unplaced {
		card.NUMANode, card.PCIeSwitch = &node, fmt.Sprintf("0000:%02x:00.0", 16+i/2)
	}
	return card
}

// applyOverrides returns a GPU with the overrides of the file.
func (c *GPU) applyOverrides(card hardware.GPU) hardware.GPU {
	card.UUID = cmp.Or(c.UUID, card.UUID)
	card.MemoryMiB = cmp.Or(c.MemoryMiB, card.MemoryMiB)
	card.ReservedMiB = cmp.Or(c.ReservedMiB, card.ReservedMiB)
	card.PCIeSwitch = cmp.Or(c.PCIeSwitch, card.PCIeSwitch)
	if c.NUMANode != nil {
		card.NUMANode = c.NUMANode
	}
	card.MIG = len(c.Slices) > 0
	for _, slice := range c.Slices {
		card.Slices = append(card.Slices, hardware.Slice(slice))
	}
	card.Signs = hardware.Signs{
		Lost: c.Lost, RowRemapFailed: c.RowRemapFailed, RowRemapPending: c.RowRemapPending, ThermalSlowdown: c.ThermalSlowdown,
		LinksDown: c.LinksDown, RecoveryKnown: c.Recovery != "",
	}
	if c.Recovery != "None" {
		card.Signs.Recovery = hardware.Recovery(c.Recovery)
	}
	return card
}

// buildLinks returns the links of the file, or one between all whole GPUs.
func (c *Config) buildLinks(cards []hardware.GPU) []gpu.Link {
	if c.Links != nil || c.NVLinks == 0 {
		return c.Links
	}
	var all []int
	for i := range cards {
		if !cards[i].MIG {
			all = append(all, cards[i].Index)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return []gpu.Link{{GPUs: all, NVLinks: c.NVLinks}}
}
