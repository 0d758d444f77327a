package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Healthy is the health of a GPU that may be allocated. Any other word is why it may not.
const Healthy = "Healthy"

// Bounds of an inventory. They are far above today's hardware, and ensure that no sum overflows.
const (
	maxIndex         = 255
	maxMemoryMiB     = 1 << 24 // 16 TiB
	maxNUMANode      = 1023
	maxNVLinks       = 1023
	minLinkGBps      = 16 // more than any PCIe path below, so that NVLink always wins
	maxLinkGBps      = 65535
	nvlinkGBps       = 25 // one link of NVLink 2 to 4, each way
	maxInventorySize = 64 << 10
	firstYear        = 2000
	lastYear         = 2999
)

// Inventory is what is known of a node's GPUs. [ParseInventory] documents its written form.
type Inventory struct {
	// GPUs are the node's GPUs in order of index, at most [MaxGPUs].
	GPUs []GPU
	// Links are the NVLink connections.
	Links []Link
	// Sliced are the GPUs in MIG mode, in order of index. They are not in GPUs.
	Sliced []SlicedGPU
	// Derived is true if the GPUs were counted from allocatable and labels, so that they have no real UUID and no health of their own.
	Derived bool
	// Slot is what each of GPUs is, if the node offers parts of GPUs in place of whole ones. It is zero if they are whole, and if the node reports
	// its GPUs: then they are allocated by UUID.
	Slot Slot
}

// GPU is one GPU.
type GPU struct {
	// UUID identifies the GPU, as the driver names it: GPU-5f1e4a3c-….
	UUID string `json:"uuid"`
	// Index is the driver's number of the GPU, 0–255.
	Index int `json:"index"`
	// MemoryMiB is the GPU's memory. 0 is unknown: such a GPU serves no demand that names memory.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	// ReservedMiB is the part of MemoryMiB that the driver keeps for itself, which no share may hold; nil is unknown: see
	// [GPU.ShareableMiB].
	ReservedMiB *int64 `json:"reservedMiB,omitempty"`
	// Product is the model as a label can have it, NVIDIA-A100-SXM4-80GB; "" is unknown. Types hold for the GPU only where a node
	// has GPUs of several.
	Product string `json:"product,omitempty"`
	// NUMANode is the NUMA node of the GPU; nil is unknown.
	NUMANode *int `json:"numaNode,omitempty"`
	// PCIeSwitch names the PCIe switch over the GPU, such as 0000:0e:00.0; GPUs with the same name
	// share it. "" is unknown or none.
	PCIeSwitch string `json:"pcieSwitch,omitempty"`
	// Health is [Healthy], or one word for what is wrong, such as Xid79.
	Health string `json:"health"`
	// Since is when the GPU was found to be as Health states, for people. It is zero if unknown, and on healthy GPUs.
	Since time.Time `json:"since,omitzero"`
}

// Link connects each pair of some GPUs by NVLink in the same way: two GPUs joined by a bridge, or all GPUs of an NVSwitch.
type Link struct {
	// GPUs are the indices of two or more GPUs.
	GPUs []int `json:"gpus"`
	// NVLinks is the number of links between two of them.
	NVLinks int `json:"nvlinks,omitempty"`
	// BandwidthGBps is the bandwidth between two of them each way, in GB/s, 16–65535.
	// When it is 0, each of NVLinks counts 25 GB/s.
	BandwidthGBps int `json:"bandwidthGBps,omitempty"`
}

// effectiveGBps returns the bandwidth between two GPUs of the link.
func (l *Link) effectiveGBps() int { return cmp.Or(l.BandwidthGBps, l.NVLinks*nvlinkGBps) }

// Validate reports every fault of a GPU and of a link, in one error.
func (inv *Inventory) Validate() error {
	if count := len(inv.GPUs) + len(inv.Sliced); count > MaxGPUs {
		return fmt.Errorf("%d GPUs, want at most %d", count, MaxGPUs)
	}
	var errs []error
	uuids := make(map[string]bool, len(inv.GPUs))
	for i := range inv.GPUs {
		card := &inv.GPUs[i]
		if err := card.validate(); err != nil {
			errs = append(errs, fmt.Errorf("gpus[%d]: %w", i, err))
		}
		if uuids[card.UUID] {
			errs = append(errs, fmt.Errorf("gpus[%d]: uuid %q is there twice", i, card.UUID))
		}
		uuids[card.UUID] = true
		if i > 0 && inv.GPUs[i-1].Index >= card.Index {
			errs = append(errs, fmt.Errorf("gpus[%d]: index %d is not above %d, the one before", i, card.Index, inv.GPUs[i-1].Index))
		}
	}
	return errors.Join(slices.Concat(errs, inv.validateSliced(uuids), inv.validateLinks())...)
}

func (c *GPU) validate() error {
	switch {
	case !uuidSpelling.allowsName(c.UUID):
		return fmt.Errorf("uuid is %.140q, want 1 to 128 letters, digits or any of . _ : / -", c.UUID)
	case c.Index < 0 || c.Index > maxIndex:
		return fmt.Errorf("index is %d, want 0 to %d", c.Index, maxIndex)
	case c.MemoryMiB < 0 || c.MemoryMiB > maxMemoryMiB:
		return fmt.Errorf("memoryMiB is %d, want 0 to %d", c.MemoryMiB, maxMemoryMiB)
	case c.ReservedMiB != nil && (*c.ReservedMiB < 0 || *c.ReservedMiB > maxMemoryMiB):
		return fmt.Errorf("reservedMiB is %d, want 0 to %d, or nothing when it is unknown", *c.ReservedMiB, maxMemoryMiB)
	case c.NUMANode != nil && (*c.NUMANode < 0 || *c.NUMANode > maxNUMANode):
		return fmt.Errorf("numaNode is %d, want 0 to %d, or nothing when it is unknown", *c.NUMANode, maxNUMANode)
	case !switchSpelling.allowsName(c.PCIeSwitch):
		return fmt.Errorf("pcieSwitch is %.80q, want up to 64 letters, digits or any of . _ : / -", c.PCIeSwitch)
	case !healthSpelling.allowsName(c.Health):
		return fmt.Errorf("health is %.40q, want %s or one CamelCase word for what is wrong", c.Health, Healthy)
	}
	return validateSince(c.Since)
}

func validateSince(at time.Time) error {
	if year := at.Year(); !at.IsZero() && (year < firstYear || year > lastYear) {
		return fmt.Errorf("since is in the year %d, want one of %d to %d", year, firstYear, lastYear)
	}
	return nil
}

// validateLinks finds links to GPUs that do not exist, and pairs of GPUs that are linked twice.
func (inv *Inventory) validateLinks() []error {
	var errs []error
	var linked [MaxGPUs]Set // of each GPU, the GPUs that it is linked to
	for i := range inv.Links {
		link := &inv.Links[i]
		if err := inv.validateLink(link); err != nil {
			errs = append(errs, fmt.Errorf("links[%d]: %w", i, err))
			continue
		}
		for j, index := range link.GPUs {
			a, _ := inv.positionOfIndex(index)
			for _, other := range link.GPUs[:j] {
				b, _ := inv.positionOfIndex(other)
				if linked[a].Has(b) {
					errs = append(errs, fmt.Errorf("links[%d]: GPUs %d and %d are linked twice", i, min(index, other), max(index, other)))
				}
				linked[a] |= singleGPU(b)
				linked[b] |= singleGPU(a)
			}
		}
	}
	return errs
}

func (inv *Inventory) validateLink(link *Link) error {
	if len(link.GPUs) < 2 || len(link.GPUs) > MaxGPUs {
		return fmt.Errorf("%d gpus, want 2 to %d", len(link.GPUs), MaxGPUs)
	}
	for i, index := range link.GPUs {
		if _, ok := inv.positionOfIndex(index); !ok {
			return fmt.Errorf("no GPU has index %d", index)
		}
		if slices.Contains(link.GPUs[:i], index) {
			return fmt.Errorf("GPU %d is there twice", index)
		}
	}
	if link.NVLinks < 0 || link.NVLinks > maxNVLinks {
		return fmt.Errorf("nvlinks is %d, want 0 to %d", link.NVLinks, maxNVLinks)
	}
	if gbps := link.effectiveGBps(); gbps < minLinkGBps || gbps > maxLinkGBps {
		return fmt.Errorf("the bandwidth is %d GB/s, want %d to %d from bandwidthGBps or nvlinks", gbps, minLinkGBps, maxLinkGBps)
	}
	return nil
}

// positionOfIndex returns the position of the GPU with an index.
func (inv *Inventory) positionOfIndex(index int) (int, bool) {
	return slices.BinarySearchFunc(inv.GPUs, index, func(card GPU, index int) int {
		return cmp.Compare(card.Index, index)
	})
}
