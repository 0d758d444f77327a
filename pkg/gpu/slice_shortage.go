package gpu

import "slices"

// SliceShortage tells why there are too few MIG slices for a demand; zero, where there are enough. Slices of a profile are alike for
// whoever fits, so that it only counts.
func (a *Allocator) SliceShortage(used *SlicesUsed, d *Demand) Reason {
	for _, asked := range d.Profiles {
		reason := Reason{Asked: asked.Count, Profile: asked.Profile}
		var free int64
		for _, at := range a.slices.byProfile[asked.Profile] {
			reason.Total++
			if !a.slices.healthy(at) {
				continue
			}
			reason.Usable++
			if !used.has(at) {
				free++
			}
		}
		if reason.Usable < asked.Count {
			reason.Code = TooFewHealthy
			return reason
		}
		reason.Unknown = used.unknown[asked.Profile]
		if reason.Usable = max(free-reason.Unknown, 0); reason.Usable < asked.Count {
			reason.Code = TooFewFree
			return reason
		}
	}
	return Reason{}
}

// GainsSlices reports whether the node has a MIG slice for a demand that it did not have before, or not healthy.
func (a *Allocator) GainsSlices(before *Allocator, d *Demand) bool {
	if a.slices == nil {
		return false
	}
	return slices.ContainsFunc(d.Profiles, func(asked ProfileDemand) bool {
		return slices.ContainsFunc(a.slices.byProfile[asked.Profile], func(at int) bool {
			return a.slices.healthy(at) && !before.hasSlice(&a.slices.slices[at])
		})
	})
}

// hasSlice reports whether the node has a slice that may be given out.
func (a *Allocator) hasSlice(slice *placedSlice) bool {
	if a.slices == nil {
		return false
	}
	at, ok := a.slices.positions[slice.UUID]
	return ok && a.slices.healthy(at) && a.slices.slices[at].Profile == slice.Profile
}
