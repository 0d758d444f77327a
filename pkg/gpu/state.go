package gpu

import "encoding/binary"

// Build is what an allocator's choices follow from, beside what is in use: how its cards are connected, how large and how
// healthy they are. Nodes of one build with equal [State]s are given the same positions for every demand, so that what is
// true of one of them need not be found out for the others. It is compared by its address; at times, equal nodes have
// different ones.
type Build struct {
	topology     *Topology
	all, healthy Set
	memoryMiB    [MaxCards]int64
	shareableMiB [MaxCards]int64
	models       string
}

// Build returns what the allocator's choices follow from.
func (a *Allocator) Build() *Build { return a.build }

// maxBuilds bounds how many builds are found again. Beyond it all are forgotten, as with [maxTopologies]. Each takes a
// KiB, and machines whose cards differ by some MiB are as many builds as there are machines.
const maxBuilds = 1 << 15

// build returns the one build that equals b, among those that are known.
func (k *Topologies) build(b Build) *Build {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.builds[b]; known != nil {
		return known
	}
	if k.builds == nil || len(k.builds) >= maxBuilds {
		k.builds = map[Build]*Build{}
	}
	k.builds[b] = &b
	return &b
}

// State is what is in use on a node, in a form that can be compared and looked up.
type State struct {
	whole, shared Set
	unknown       Unknown
	// sharedMiB is the memory in use on each shared card, 8 bytes for each in order of position.
	sharedMiB string
}

// State returns what is in use. Two are equal if and only if an allocator cannot tell them apart.
func (u *Used) State() State {
	s := State{whole: u.whole, shared: u.shared, unknown: u.unknown}
	if u.shared == 0 {
		return s
	}
	memory := make([]byte, 0, 8*MaxCards)
	for rest := u.shared; rest != 0; rest &= rest - 1 {
		memory = binary.BigEndian.AppendUint64(memory, uint64(u.sharedMiB[rest.First()]))
	}
	s.sharedMiB = string(memory)
	return s
}
