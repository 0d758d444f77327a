package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxSlicesPerGPU is the most MIG slices of one GPU. Today's have seven at the most.
const maxSlicesPerGPU = 8

// SlicedGPU is a GPU in MIG mode: it is allocated as slices, and never whole. Its memory is all of the GPU's.
type SlicedGPU struct {
	GPU
	// Slices are the slices that the GPU is partitioned into, empty before it is partitioned.
	Slices []GPUSlice `json:"slices,omitempty"`
}

// GPUSlice is a MIG slice of a GPU.
type GPUSlice struct {
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
		if _, whole := inv.positionOfIndex(card.Index); whole {
			errs = append(errs, fmt.Errorf("sliced[%d]: index %d is that of a card that is given whole", i, card.Index))
		}
		for _, uuid := range card.allUUIDs() {
			if uuids[uuid] {
				errs = append(errs, fmt.Errorf("sliced[%d]: uuid %q is there twice", i, uuid))
			}
			uuids[uuid] = true
		}
	}
	return errs
}

// allUUIDs are those of the GPU and of its slices.
func (c *SlicedGPU) allUUIDs() []string {
	uuids := []string{c.UUID}
	for i := range c.Slices {
		uuids = append(uuids, c.Slices[i].UUID)
	}
	return uuids
}

func (c *SlicedGPU) validate() error {
	if len(c.Slices) > maxSlicesPerGPU {
		return fmt.Errorf("%d slices, want at most %d", len(c.Slices), maxSlicesPerGPU)
	}
	errs := []error{c.GPU.validate()}
	for i := range c.Slices {
		if err := c.Slices[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("slices[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (s *GPUSlice) validate() error {
	switch {
	case !uuidSpelling.allowsName(s.UUID):
		return fmt.Errorf("uuid is %.140q, want 1 to 128 letters, digits or any of . _ : / -", s.UUID)
	case !profileSpelling.allowsName(s.Profile):
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
	gpus      []slicedGPU
}

// placedSlice is a slice and where it is: the position of its GPU.
type placedSlice struct {
	GPUSlice
	gpu int
}

// slicedGPU is the data of a GPU that the choice needs.
type slicedGPU struct {
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
		t.gpus = append(t.gpus, slicedGPU{uuid: card.UUID, index: card.Index, numa: numa, healthy: card.Health == Healthy})
		ordered := slices.SortedFunc(slices.Values(card.Slices), func(a, b GPUSlice) int { return strings.Compare(a.UUID, b.UUID) })
		for _, slice := range ordered {
			at := len(t.slices)
			t.slices = append(t.slices, placedSlice{GPUSlice: slice, gpu: i})
			t.positions[slice.UUID] = at
			t.byProfile[slice.Profile] = append(t.byProfile[slice.Profile], at)
		}
	}
	if len(t.slices) == 0 {
		return nil
	}
	return t
}

// isHealthy reports whether a slice may be allocated.
func (t *sliceTable) isHealthy(at int) bool { return t.gpus[t.slices[at].gpu].healthy }

// sliceSize is the weight of a slice when GPUs are compared by their use.
func (t *sliceTable) sliceSize(at int) int64 { return max(t.slices[at].MemoryMiB, 1) }

// NamesSlices reports whether the node names its MIG slices. If it does not, as with an older agent, only Kubernetes counts slices, and the agent chooses
// them.
func (a *Allocator) NamesSlices() bool { return a.slices != nil }
