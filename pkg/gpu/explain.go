package gpu

import "slices"

// explain finds out why a demand has no place. It is only called in that case, so it may take longer.
func (a *Allocator) explain(used *Used, d *Demand, code Code) Reason {
	reason := Reason{Code: code, Total: int64(len(a.inventory.Cards)), LargestMiB: slices.Max(a.memoryMiB[:]), Sharing: a.inventory.Slot.Sharing}
	var empty Used
	never := a.place(&empty, d, &Allocation{}) != Fits
	if never {
		used = &empty
	}
	if d.widestShare() > 0 {
		reason.ShareableMiB = slices.Max(a.shareableMiB[:])
		reason.Reserved = a.isKeptByReserved(used, d)
	}
	if never {
		return a.never(d, reason)
	}
	switch reason.Code {
	case TooFewShareable:
		s := a.shareable(used, d)
		reason.Asked, reason.Usable = d.widestShare(), int64(s.roomy().Len())
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
	return all.place(used, d, &Allocation{}) == Fits
}

// never finds out why a demand has no place even on the empty node.
func (a *Allocator) never(d *Demand, reason Reason) Reason {
	reason.MemoryMiB = d.MemoryMinMiB
	if d.widestShare() > 0 {
		reason.MemoryMiB = max(d.MemoryMinMiB, d.ShareMiB)
	}
	reason.Asked, _ = addSaturating(d.wholePeak(), d.widestShare())
	typed := a.ofTypes(d)
	known, large := a.large(1)&typed, a.large(d.MemoryMinMiB)&typed
	if d.widestShare() > 0 {
		large &= a.having(&a.shareableMiB, d.ShareMiB)
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
