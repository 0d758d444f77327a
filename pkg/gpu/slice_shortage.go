package gpu

import "slices"

// SliceShortage explains why there are too few MIG slices for a demand; it is zero if there are enough. Slices of a profile are interchangeable, so
// it only counts.
func (a *Allocator) SliceShortage(used *SlicesUsed, d *Demand) Reason {
	for _, asked := range d.Profiles {
		total, healthy, free := a.countSlices(used, asked.Profile)
		reason := Reason{Asked: asked.Count, Usable: healthy, Total: total, Profile: asked.Profile}
		if healthy < asked.Count {
			reason.Code = TooFewHealthy
			return reason
		}
		if free < asked.Count {
			reason.Code, reason.Usable, reason.Unknown = TooFewFree, free, used.unknown[asked.Profile]
			return reason
		}
	}
	return Reason{}
}

// FreeSlices returns how many MIG slices of a profile can be allocated: those on healthy GPUs that no pod holds.
func (a *Allocator) FreeSlices(used *SlicesUsed, profile string) int64 {
	if a.slices == nil {
		return 0
	}
	_, _, free := a.countSlices(used, profile)
	return free
}

// countSlices counts the slices of a profile, those on healthy GPUs, and those on healthy GPUs that no pod holds.
func (a *Allocator) countSlices(used *SlicesUsed, profile string) (total, healthy, free int64) {
	for _, at := range a.slices.byProfile[profile] {
		total++
		if !a.slices.isHealthy(at) {
			continue
		}
		healthy++
		if !used.isHeld(at) {
			free++
		}
	}
	return total, healthy, max(free-used.unknown[profile], 0)
}

// GainsSlices reports whether the node has a MIG slice for a demand that it did not have before, or not healthy.
func (a *Allocator) GainsSlices(before *Allocator, d *Demand) bool {
	if a.slices == nil {
		return false
	}
	return slices.ContainsFunc(d.Profiles, func(asked ProfileDemand) bool {
		return slices.ContainsFunc(a.slices.byProfile[asked.Profile], func(at int) bool {
			return a.slices.isHealthy(at) && !before.hasSlice(&a.slices.slices[at])
		})
	})
}

// hasSlice reports whether the node has a slice that may be allocated.
func (a *Allocator) hasSlice(slice *placedSlice) bool {
	if a.slices == nil {
		return false
	}
	at, ok := a.slices.positions[slice.UUID]
	return ok && a.slices.isHealthy(at) && a.slices.slices[at].Profile == slice.Profile
}
