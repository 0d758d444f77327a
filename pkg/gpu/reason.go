package gpu

import "fmt"

// Code is why a demand does not fit a node.
type Code uint8

// The reasons. Those up to [TooFewMemory] apply even to an empty node.
const (
	// Fits is no reason: the demand has its GPUs.
	Fits Code = iota
	// NoGPUs: the node has none.
	NoGPUs
	// TooFewGPUs: the node has fewer than are asked.
	TooFewGPUs
	// OnlySlots: the demand is for several whole GPUs, and the node offers parts of some, which could be parts of one.
	OnlySlots
	// TooFewOfType: the node has several models, and too few GPUs of the type asked.
	TooFewOfType
	// MemoryUnknown: the demand names memory, and the node does not report that of enough GPUs.
	MemoryUnknown
	// TooFewMemory: too few of the node's GPUs have the memory asked.
	TooFewMemory
	// TooFewHealthy: enough GPUs, but too few of them healthy.
	TooFewHealthy
	// TooFewFree: enough GPUs, but too few of them free. Pods that end make room.
	TooFewFree
	// TooFewShareable: enough GPUs, but too few with the memory asked to share. Pods that end make room.
	TooFewShareable
	// Codes is how many codes there are.
	Codes
)

// Reason is why a demand does not fit a node, with the numbers behind it. The zero value is no reason.
type Reason struct {
	Code Code
	// Asked is the number of different GPUs that must be had at once.
	Asked int64
	// Usable is how many are usable: of the node's GPUs, those with memory, the healthy or the free ones, depending on Code.
	Usable int64
	// Total is the number of the node's GPUs.
	Total int64
	// MemoryMiB is the memory asked of each GPU, 0 for any.
	MemoryMiB int64
	// LargestMiB is the memory of the node's largest GPU.
	LargestMiB int64
	// ShareableMiB is the most that shares can hold of one of the node's GPUs, 0 for a demand without shares. Reserved is true if the demand would
	// fit if the driver reserved nothing.
	ShareableMiB int64
	Reserved     bool
	// Unknown is the number of GPUs subtracted for pods that hold GPUs without naming them.
	Unknown int64
	// Sharing is the sharing method of the node's GPUs, if the numbers count parts of them ([Slot]); "" if they count GPUs.
	Sharing string
	// Profile is that of the MIG slices that the numbers count, "" if they count GPUs.
	Profile string
}

// IsZero reports whether there is no reason, because the demand fits.
func (r Reason) IsZero() bool { return r.Code == Fits }

// IsShortage reports whether the demand can fit after pods end, or are evicted.
func (r Reason) IsShortage() bool { return r.Code == TooFewFree || r.Code == TooFewShareable }

// MissingGPUs returns how many GPUs are missing.
func (r Reason) MissingGPUs() int64 { return max(r.Asked-r.Usable, 0) }

// Detail returns the numbers in words, such as "6 of 8 free, 2 short".
func (r Reason) Detail() string {
	switch r.Code {
	case Fits:
		return ""
	case NoGPUs, TooFewGPUs:
		return fmt.Sprintf("%d GPUs, %d asked", r.Total, r.Asked)
	case OnlySlots:
		return fmt.Sprintf("%d asked, and each of %d is a part of a GPU (%s)", r.Asked, r.Total, r.Sharing)
	}
	text := fmt.Sprintf("%d of %d %s", r.Usable, r.Total, r.qualityText())
	if r.Profile != "" {
		text = fmt.Sprintf("%d of %d MIG slices of %s %s", r.Usable, r.Total, r.Profile, r.qualityText())
	}
	if r.MissingGPUs() > 0 {
		text += fmt.Sprintf(", %d short", r.MissingGPUs())
	} else {
		text += ", too few for all containers together"
	}
	switch {
	case r.Reserved:
		text += fmt.Sprintf("; the largest has %d MiB, of which shares can hold %d", r.LargestMiB, r.ShareableMiB)
	case r.Code == TooFewMemory:
		text += fmt.Sprintf("; the largest has %d MiB", r.LargestMiB)
	}
	if r.Sharing != "" {
		text += fmt.Sprintf("; each is a part of a GPU (%s)", r.Sharing)
	}
	if r.Unknown > 0 {
		text += fmt.Sprintf("; %d are held by pods that do not name theirs", r.Unknown)
	}
	return text
}

// qualityText describes the usable GPUs.
func (r Reason) qualityText() string {
	switch r.Code {
	case TooFewOfType:
		return "of the type asked"
	case MemoryUnknown:
		return "known to have any memory"
	case TooFewMemory:
		return fmt.Sprintf("large enough for %d MiB", r.MemoryMiB)
	case TooFewHealthy:
		return "healthy"
	case TooFewShareable:
		return fmt.Sprintf("with %d MiB to share", r.MemoryMiB)
	}
	if r.MemoryMiB > 0 {
		return fmt.Sprintf("free with %d MiB", r.MemoryMiB)
	}
	return "free"
}
