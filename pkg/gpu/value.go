package gpu

// SetValue is how well connected a set of GPUs is, 0–100: its bandwidth as a share of the best set of the same size on this node, if all were free.
// One GPU, or none, is worth 100.
func (a *Allocator) SetValue(set Set) int64 {
	set &= a.all
	ideal := int64(a.topology.ideal[set.Len()])
	if ideal == 0 {
		return 100
	}
	return min(100*int64(a.topology.setBandwidth(set))/ideal, 100)
}

// SetBandwidth is the sum of the bandwidths of all pairs in a set, in GB/s each way. Unlike SetValue it
// compares sets of different nodes.
func (a *Allocator) SetBandwidth(set Set) int64 {
	return int64(a.topology.setBandwidth(set & a.all))
}

// SlowestPath is the slowest path between two GPUs of a set, [PathNVLink] for fewer than two.
func (a *Allocator) SlowestPath(set Set) Path {
	slowest := PathNVLink
	set &= a.all
	for card := range set.All() {
		for other := range set.afterPosition(card).All() {
			slowest = min(slowest, a.pathBetweenGPUs(card, other))
		}
	}
	return slowest
}

func (a *Allocator) pathBetweenGPUs(card, other int) Path {
	if a.topology.pairs[card*a.topology.gpus+other] >= minLinkGBps {
		return PathNVLink
	}
	return pathBetween(&a.inventory.GPUs[card], &a.inventory.GPUs[other])
}
