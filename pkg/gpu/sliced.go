package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxSlicesPerCard is the most MIG slices of one GPU. Today's have seven at the most.
const maxSlicesPerCard = 8

// SlicedCard is a GPU in MIG mode: it is allocated as slices, and never whole. Its memory is all of the GPU's.
type SlicedCard struct {
	Card
	// Slices are the slices that the GPU is partitioned into, empty before it is partitioned.
	Slices []CardSlice `json:"slices,omitempty"`
}

// CardSlice is a MIG slice of a GPU.
type CardSlice struct {
	// UUID identifies the slice, as the driver names it: MIG-….
	UUID string `json:"uuid"`
	// Profile is NVIDIA's name for its size, as in the name of the resource: 1g.10gb.
	Profile string `json:"profile"`
	// MemoryMiB is the memory of the slice, 0 where it is not known.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// validateSliced finds faults of GPUs in MIG mode. uuids are those of the whole GPUs.
func (inv *Inventory) validateSliced(uuids map[string]bool) []error {
	var errs []error
	for i := range inv.Sliced {
		card := &inv.Sliced[i]
		if err := card.validate(); err != nil {
			errs = append(errs, fmt.Errorf("sliced[%d]: %w", i, err))
		}
		if i > 0 && inv.Sliced[i-1].Index >= card.Index {
			errs = append(errs, fmt.Errorf("sliced[%d]: index %d is not above %d, the one before", i, card.Index, inv.Sliced[i-1].Index))
		}
		if _, whole := inv.position(card.Index); whole {
			errs = append(errs, fmt.Errorf("sliced[%d]: index %d is that of a card that is given whole", i, card.Index))
		}
		for _, uuid := range card.uuids() {
			if uuids[uuid] {
				errs = append(errs, fmt.Errorf("sliced[%d]: uuid %q is there twice", i, uuid))
			}
			uuids[uuid] = true
		}
	}
	return errs
}

// uuids are those of the GPU and of its slices.
func (c *SlicedCard) uuids() []string {
	uuids := []string{c.UUID}
	for i := range c.Slices {
		uuids = append(uuids, c.Slices[i].UUID)
	}
	return uuids
}

func (c *SlicedCard) validate() error {
	if len(c.Slices) > maxSlicesPerCard {
		return fmt.Errorf("%d slices, want at most %d", len(c.Slices), maxSlicesPerCard)
	}
	errs := []error{c.Card.validate()}
	for i := range c.Slices {
		if err := c.Slices[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("slices[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (s *CardSlice) validate() error {
	switch {
	case !uuidSpelled.fits(s.UUID):
		return fmt.Errorf("uuid is %.140q, want 1 to 128 letters, digits or any of . _ : / -", s.UUID)
	case !profileSpelled.fits(s.Profile):
		return fmt.Errorf("profile is %.80q, want a name such as 1g.10gb", s.Profile)
	case s.MemoryMiB < 0 || s.MemoryMiB > maxMemoryMiB:
		return fmt.Errorf("memoryMiB is %d, want 0 to %d", s.MemoryMiB, maxMemoryMiB)
	}
	return nil
}

// sliceTable is the prepared form of the MIG slices of a node. Each slice has a position: those of one GPU are consecutive, in order of index and
// UUID.
type sliceTable struct {
	slices    []placedSlice
	positions map[string]int // by UUID
	byProfile map[string][]int
	cards     []slicedCard
}

// placedSlice is a slice and where it is: the position of its GPU.
type placedSlice struct {
	CardSlice
	card int
}

// slicedCard is the data of a GPU that the choice needs.
type slicedCard struct {
	uuid    string
	index   int
	numa    int // -1 where it is not known
	healthy bool
}

// newSliceTable returns nil for a node without slices.
func newSliceTable(inventory *Inventory) *sliceTable {
	t := &sliceTable{positions: map[string]int{}, byProfile: map[string][]int{}}
	for i := range inventory.Sliced {
		card := &inventory.Sliced[i]
		numa := -1
		if card.NUMANode != nil {
			numa = *card.NUMANode
		}
		t.cards = append(t.cards, slicedCard{uuid: card.UUID, index: card.Index, numa: numa, healthy: card.Health == Healthy})
		ordered := slices.SortedFunc(slices.Values(card.Slices), func(a, b CardSlice) int { return strings.Compare(a.UUID, b.UUID) })
		for _, slice := range ordered {
			at := len(t.slices)
			t.slices = append(t.slices, placedSlice{CardSlice: slice, card: i})
			t.positions[slice.UUID] = at
			t.byProfile[slice.Profile] = append(t.byProfile[slice.Profile], at)
		}
	}
	if len(t.slices) == 0 {
		return nil
	}
	return t
}

// healthy reports whether a slice may be allocated.
func (t *sliceTable) healthy(at int) bool { return t.cards[t.slices[at].card].healthy }

// size is the weight of a slice when GPUs are compared by their use.
func (t *sliceTable) size(at int) int64 { return max(t.slices[at].MemoryMiB, 1) }

// Sliced reports whether the node names its MIG slices. If it does not, as with an older agent, only Kubernetes counts slices, and the agent chooses
// them.
func (a *Allocator) Sliced() bool { return a.slices != nil }
