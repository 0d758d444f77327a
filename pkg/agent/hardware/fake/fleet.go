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

// fleet returns the GPUs that a file describes.
func (c *Config) fleet() hardware.Fleet {
	cards := map[int]hardware.Card{}
	for i := range c.Count {
		cards[i] = c.regular(i)
	}
	for i := range c.Cards {
		card := &c.Cards[i]
		if card.Absent {
			delete(cards, card.Index)
			continue
		}
		base, ok := cards[card.Index]
		if !ok {
			base = c.regular(card.Index)
		}
		cards[card.Index] = card.over(base)
	}
	var fleet hardware.Fleet
	for _, card := range cards {
		fleet.Cards = append(fleet.Cards, card)
	}
	slices.SortFunc(fleet.Cards, func(a, b hardware.Card) int { return cmp.Compare(a.Index, b.Index) })
	fleet.Links = c.links(fleet.Cards)
	return fleet
}

// regular returns GPU i of the equal ones.
func (c *Config) regular(i int) hardware.Card {
	node := 0
	if 2*i >= c.Count {
		node = 1
	}
	card := hardware.Card{
		UUID: UUID(i), Index: i, Minor: &i, Product: cmp.Or(c.Product, defaultProduct), MemoryMiB: cmp.Or(c.MemoryMiB, defaultMemoryMiB), ReservedMiB: c.ReservedMiB,
	}
	if !c.Unplaced {
		card.NUMANode, card.PCIeSwitch = &node, fmt.Sprintf("0000:%02x:00.0", 16+i/2)
	}
	return card
}

// over returns a GPU with the overrides of the file.
func (c *Card) over(card hardware.Card) hardware.Card {
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

// links returns the links of the file, or one between all whole GPUs.
func (c *Config) links(cards []hardware.Card) []gpu.Link {
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
