package gpu

import (
	"cmp"
	"math/bits"
)

// bestSet returns the best set of size GPUs out of free, which must hold at least as many: the one with
// the highest bandwidth; among equals the one that leaves the most potential, and then the highest
// bandwidth, in the GPUs that stay free; among equals the one with the lowest positions.
// Beyond 16 GPUs it is grown greedily and may be worse.
func (t *Topology) bestSet(free Set, size int) Set {
	switch {
	case size == 0:
		return 0
	case size == free.Len():
		return free
	case t.bandwidth == nil:
		return t.growBestSet(free, size)
	}
	remembered := &t.chosen[size<<t.gpus|int(free)]
	if s := remembered.Load(); s != 0 {
		return Set(s)
	}
	s := t.searchBestSet(free, size)
	remembered.Store(uint32(s)) // a race stores the same value twice
	return s
}

// searchBestSet finds the best set by trying each. Sets come lowest positions first, so the first of equals wins. A set that reaches the bound ends the
// search: if all GPUs are equal, that is the first.
func (t *Topology) searchBestSet(free Set, size int) Set {
	bound := t.worthBound(size, free.Len()-size)
	var best Set
	var bestWorth uint64
	for _, s := range t.bySize[size] {
		if s&^free != 0 {
			continue
		}
		if worth := t.setWorth(s, free&^s); best == 0 || worth > bestWorth {
			if best, bestWorth = s, worth; worth == bound {
				break
			}
		}
	}
	return best
}

// setWorth packs the criteria of best into one number. The bandwidth of 16 GPUs is below 2^23.
func (t *Topology) setWorth(chosen, left Set) uint64 {
	return uint64(t.bandwidth[chosen])<<40 | uint64(t.potential[left])<<28 | uint64(t.bandwidth[left])
}

// worthBound returns an upper bound on the worth of a set of a size that leaves that many GPUs.
func (t *Topology) worthBound(size, left int) uint64 {
	most := uint64(left/8<<8 | left/4<<4 | left/2)
	return uint64(t.ideal[size])<<40 | most<<28 | uint64(t.ideal[left])
}

// comparePositions orders sets of one size by their positions: {0,3} before {1,2}.
func comparePositions(a, b Set) int {
	return cmp.Compare(bits.Reverse64(uint64(b)), bits.Reverse64(uint64(a)))
}

// growingSet is a set that is grown GPU by GPU.
type growingSet struct {
	topology  *Topology
	set, left Set
	bandwidth uint32
	// gain is the bandwidth that each GPU would add.
	gain [MaxGPUs]uint32
}

// addGPU takes a GPU into the set.
func (g *growingSet) addGPU(card int) {
	g.bandwidth += g.gain[card]
	g.set |= singleGPU(card)
	g.left &^= singleGPU(card)
	for other := range g.left.All() {
		g.gain[other] += uint32(g.topology.pairs[card*g.topology.gpus+other])
	}
}

// nextGPU returns the GPU that adds the most bandwidth, the lowest of equals.
func (g *growingSet) nextGPU() int {
	best := g.left.First()
	for card := range g.left.All() {
		if g.gain[card] > g.gain[best] {
			best = card
		}
	}
	return best
}

// cutBandwidth returns the bandwidth between the set and the GPUs that are left, which taking the set destroys.
func (g *growingSet) cutBandwidth() uint32 {
	var sum uint32
	for card := range g.left.All() {
		sum += g.gain[card]
	}
	return sum
}

// growBestSet replaces searchBestSet beyond 16 GPUs, where there are too many sets. It grows a set from each GPU by what adds the most bandwidth, and takes
// the best; among equals the one with the least bandwidth to the GPUs it leaves, then the lowest start. It finds the optimum wherever links form
// islands, as they do in machines; on an arbitrary graph it may miss it. 64 GPUs take some 100 µs.
func (t *Topology) growBestSet(free Set, size int) Set {
	var best Set
	var bestBandwidth, bestCut uint32
	for seed := range free.All() {
		g := growingSet{topology: t, left: free}
		g.addGPU(seed)
		for g.set.Len() < size {
			g.addGPU(g.nextGPU())
		}
		cut := g.cutBandwidth()
		if best == 0 || g.bandwidth > bestBandwidth || g.bandwidth == bestBandwidth && cut < bestCut {
			best, bestBandwidth, bestCut = g.set, g.bandwidth, cut
		}
	}
	return best
}

// growIdeals fills the ideals from sets grown out of all GPUs.
func (t *Topology) growIdeals() {
	for seed := range t.gpus {
		g := growingSet{topology: t, left: firstPositions(t.gpus)}
		g.addGPU(seed)
		for size := 2; size <= t.gpus; size++ {
			g.addGPU(g.nextGPU())
			t.ideal[size] = max(t.ideal[size], g.bandwidth)
		}
	}
}
