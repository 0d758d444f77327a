package gpu

import "slices"

// explainShortage finds out why a demand has no place. It is only called in that case, so it may take longer.
func (a *Allocator) explainShortage(used *Used, d *Demand, code Code) Reason {
	reason := Reason{Code: code, Total: int64(len(a.inventory.GPUs)), LargestMiB: slices.Max(a.memoryMiB[:]), Sharing: a.inventory.Slot.Sharing}
	var empty Used
	never := a.placeDemand(&empty, d, &Allocation{}) != Fits
	if never {
		used = &empty
	}
	if d.widestShare() > 0 {
		reason.ShareableMiB = slices.Max(a.shareableMiB[:])
		reason.Reserved = a.isKeptByReserved(used, d)
	}
	if never {
		return a.explainNeverFits(d, reason)
	}
	switch reason.Code {
	case TooFewShareable:
		s := a.shareableGPUs(used, d)
		reason.Asked, reason.Usable = d.widestShare(), int64(s.gpusWithRoom().Len())
		reason.MemoryMiB = d.ShareMiB
		reason.Unknown = used.unknown.Whole
	default:
		reason.Asked, reason.Usable = d.wholePeak(), int64(a.freeWhole(used, d).Len())
		reason.MemoryMiB = d.MemoryMinMiB
		reason.Unknown = used.unknown.Whole + used.unknown.Shared
	}
	return reason
}

// isKeptByReserved reports whether a demand fails only because of the memory that the driver reserves.
func (a *Allocator) isKeptByReserved(used *Used, d *Demand) bool {
	all := *a
	all.shareableMiB = a.memoryMiB
	return all.placeDemand(used, d, &Allocation{}) == Fits
}

// explainNeverFits finds out why a demand has no place even on the empty node.
func (a *Allocator) explainNeverFits(d *Demand, reason Reason) Reason {
	reason.MemoryMiB = d.MemoryMinMiB
	if d.widestShare() > 0 {
		reason.MemoryMiB = max(d.MemoryMinMiB, d.ShareMiB)
	}
	reason.Asked, _ = addSaturating(d.wholePeak(), d.widestShare())
	typed := a.gpusOfTypes(d)
	known, large := a.gpusWithMemory(1)&typed, a.gpusWithMemory(d.MemoryMinMiB)&typed
	if d.widestShare() > 0 {
		large &= a.gpusWithAmount(&a.shareableMiB, d.ShareMiB)
	}
	enough := func(cards Set) bool {
		reason.Usable = int64(cards.Len())
		return reason.Usable >= reason.Asked
	}
	switch {
	case reason.Total == 0:
		reason.Code = NoGPUs
	case !a.countsFor(d):
		reason.Code, reason.Usable = OnlySlots, 1
	case !enough(a.all):
		reason.Code = TooFewGPUs
	case !enough(typed):
		reason.Code = TooFewOfType
	case reason.MemoryMiB > 0 && !enough(known):
		reason.Code = MemoryUnknown
	case !enough(large):
		reason.Code = TooFewMemory
	case !enough(large & a.healthy):
		reason.Code = TooFewHealthy
	default: // each container alone would fit
		reason.Code = TooFewMemory
	}
	return reason
}
