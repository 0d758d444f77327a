package gpu

// potential says how much can still be made of a set of free GPUs: how many disjoint ideal sets of 8, of
// 4 and of 2 GPUs it holds, in its bits 8–11, 4–7 and 0–3. Compared as a number it is lexicographic: one
// more set of 8 outweighs any number of sets of 4.
//
// A set of k GPUs is ideal when no other set of k GPUs of the node has a higher bandwidth, so ideal sets
// follow from the topology alone: any 4 GPUs behind an NVSwitch, 4 GPUs under one switch of a PCIe node,
// two GPUs with a bridge. They are counted disjoint, because that is how many pods can have one: three
// GPUs under a switch hold three pairs, but only one at a time.
type potential uint16

// valuableSizes are the sizes of set that jobs ask for when links matter to them.
var valuableSizes = [...]int{8, 4, 2}

// Potential is how many disjoint ideal sets of a size some GPUs hold: sets of that many GPUs of which
// no others of the node are better connected.
type Potential struct {
	Eights, Fours, Twos int
}

// PotentialOf returns what can be built from some free GPUs. Beyond 16 GPUs, where ideal sets are unknown, any GPUs form a set.
func (a *Allocator) PotentialOf(free Set) Potential {
	free &= a.all
	if a.topology.potential == nil {
		return Potential{Eights: free.Len() / 8, Fours: free.Len() / 4, Twos: free.Len() / 2}
	}
	packed := a.topology.potential[free]
	return Potential{Eights: int(packed >> 8), Fours: int(packed >> 4 & 15), Twos: int(packed & 15)}
}

// computePotentials computes the potential of every set.
func (t *Topology) computePotentials() []potential {
	potentials := make([]potential, 1<<t.gpus)
	count := make([]uint8, 1<<t.gpus)
	for _, size := range valuableSizes {
		if size <= t.gpus {
			t.countDisjoint(size, count)
		} else {
			clear(count)
		}
		for s := range potentials {
			potentials[s] = potentials[s]<<4 | potential(count[s])
		}
	}
	return potentials
}

// countDisjoint writes, for each set, the largest number of disjoint ideal sets of a size in it: the first
// GPU is either in none of them, or in one of those that begin with it.
func (t *Topology) countDisjoint(size int, count []uint8) {
	ideals := t.idealsByFirst(size)
	for s := Set(1); s < 1<<t.gpus; s++ {
		first, rest := s.pop()
		most := count[rest]
		bound := uint8(s.Len() / size)
		for _, ideal := range ideals[first] {
			if most == bound {
				break
			}
			if ideal&^s == 0 {
				most = max(most, 1+count[s&^ideal])
			}
		}
		count[s] = most
	}
}

// idealsByFirst lists the ideal sets of a size by their lowest GPU.
func (t *Topology) idealsByFirst(size int) [][]Set {
	ideals := make([][]Set, t.gpus)
	for _, s := range t.bySize[size] {
		if t.bandwidth[s] == t.ideal[size] {
			ideals[s.First()] = append(ideals[s.First()], s)
		}
	}
	return ideals
}
