package gpu

import (
	"slices"
	"sync"
	"sync/atomic"
)

// maxExactGPUs is the most GPUs for which tables over all sets are kept. Beyond it sets are grown greedily:
// see [Topology.growBestSet].
const maxExactGPUs = 16

// Path is the kind of connection between two GPUs of a node.
type Path uint8

// The paths between two GPUs, the slowest first.
const (
	// PathAcross goes over the host bridge or between processors, or is unknown.
	PathAcross Path = iota
	// PathSameNUMA stays on one NUMA node.
	PathSameNUMA
	// PathSameSwitch stays under one PCIe switch.
	PathSameSwitch
	// PathNVLink is a direct NVLink, or NVLink through an NVSwitch.
	PathNVLink
)

// String returns the path in words.
func (p Path) String() string {
	return [...]string{"across NUMA nodes", "same NUMA node", "same PCIe switch", "NVLink"}[p]
}

// pathGBps is the assumed bandwidth of a path without NVLink, in GB/s each way: that of PCIe 3.0 x16 under one switch, through one host bridge, and
// between processors. Only the order and the rough ratio matter; each is below minLinkGBps.
var pathGBps = [...]uint16{PathAcross: 6, PathSameNUMA: 9, PathSameSwitch: 12}

// pathBetween returns the path between two GPUs without NVLink.
func pathBetween(a, b *GPU) Path {
	switch {
	case a.PCIeSwitch != "" && a.PCIeSwitch == b.PCIeSwitch:
		return PathSameSwitch
	case a.NUMANode != nil && b.NUMANode != nil && *a.NUMANode == *b.NUMANode:
		return PathSameNUMA
	default:
		return PathAcross
	}
}

// pairBandwidths returns the bandwidth between each two GPUs in GB/s, as an n×n matrix by position.
// The inventory must be valid.
func pairBandwidths(inv *Inventory) []uint16 {
	n := len(inv.GPUs)
	pairs := make([]uint16, n*n)
	for i := range n {
		for j := range i {
			gbps := pathGBps[pathBetween(&inv.GPUs[i], &inv.GPUs[j])]
			pairs[i*n+j], pairs[j*n+i] = gbps, gbps
		}
	}
	for l := range inv.Links {
		link := &inv.Links[l]
		for i, index := range link.GPUs {
			a, _ := inv.positionOfIndex(index)
			for _, other := range link.GPUs[:i] {
				b, _ := inv.positionOfIndex(other)
				gbps := uint16(link.effectiveGBps())
				pairs[a*n+b], pairs[b*n+a] = gbps, gbps
			}
		}
	}
	return pairs
}

// Topology is how the GPUs of a node are connected, with tables for every set of GPUs. It does not depend on which GPUs are free, healthy or large,
// so all nodes with the same hardware share one: see [Topologies]. It does not change visibly and is safe for concurrent use.
//
// Up to 16 GPUs it holds tables over all sets: 8 GPUs take 15 KiB, 16 GPUs 5 MiB.
type Topology struct {
	gpus int
	// pairs is the bandwidth between two GPUs, GPUs×GPUs.
	pairs []uint16
	// ideal is the highest bandwidth of any set of each size.
	ideal []uint32
	// bandwidth is the sum over all pairs of each set. The three tables are nil beyond maxExactGPUs.
	bandwidth []uint32
	// potential is, for each set, how much can still be made of it: see potential.go.
	potential []potential
	// bySize lists the sets of each size, the one with the lowest positions first.
	bySize [][]Set
	// chosen remembers the answers of best by size and set, 0 where there is none yet.
	chosen []atomic.Uint32
}

func newTopology(cards int, pairs []uint16) *Topology {
	t := &Topology{gpus: cards, pairs: pairs, ideal: make([]uint32, cards+1)}
	if cards > maxExactGPUs {
		t.growIdeals()
		return t
	}
	t.bandwidth = make([]uint32, 1<<cards)
	t.bySize = make([][]Set, cards+1)
	for s := Set(1); s < 1<<cards; s++ {
		first, rest := s.pop()
		t.bandwidth[s] = t.bandwidth[rest] + t.bandwidthTo(first, rest)
		size := s.Len()
		t.ideal[size] = max(t.ideal[size], t.bandwidth[s])
		t.bySize[size] = append(t.bySize[size], s)
	}
	for _, sets := range t.bySize {
		slices.SortFunc(sets, comparePositions)
	}
	t.potential = t.computePotentials()
	t.chosen = make([]atomic.Uint32, (cards+1)<<cards)
	return t
}

// bandwidthTo returns the sum of the bandwidths from one GPU to each of a set.
func (t *Topology) bandwidthTo(card int, set Set) uint32 {
	var sum uint32
	for other := range set.All() {
		sum += uint32(t.pairs[card*t.gpus+other])
	}
	return sum
}

// setBandwidth returns the sum of the bandwidths of all pairs in a set, in GB/s.
func (t *Topology) setBandwidth(set Set) uint32 {
	if t.bandwidth != nil {
		return t.bandwidth[set]
	}
	var sum uint32
	for card := range set.All() {
		sum += t.bandwidthTo(card, set.afterPosition(card))
	}
	return sum
}

// maxTopologies bounds how many topologies are cached. A cluster has a handful of node models. Beyond the bound the cache is cleared, and topologies
// are built again for new nodes; each stays in memory for as long as a node's allocator refers to it. So unused topologies stay below some 300 MiB,
// while nodes of 16 GPUs whose agents each report other bandwidths take 5 MiB apiece.
const maxTopologies = 64

// Topologies keeps one [Topology], and one [Hardware], for all nodes with the same hardware. The zero value is ready to use, and safe for concurrent
// use.
type Topologies struct {
	mu       sync.Mutex
	known    map[string]*Topology
	hardware map[Hardware]*Hardware
}

// topologyFor returns the topology of an inventory, which must be valid.
func (k *Topologies) topologyFor(inv *Inventory) *Topology {
	pairs := pairBandwidths(inv)
	key := topologyKey(len(inv.GPUs), pairs)
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.known[key]; t != nil {
		return t
	}
	if k.known == nil || len(k.known) >= maxTopologies {
		k.known = map[string]*Topology{}
	}
	t := newTopology(len(inv.GPUs), pairs)
	k.known[key] = t
	return t
}

// topologyKey is equal for equal matrices only.
func topologyKey(cards int, pairs []uint16) string {
	key := make([]byte, 0, 1+2*len(pairs))
	key = append(key, byte(cards))
	for _, gbps := range pairs {
		key = append(key, byte(gbps>>8), byte(gbps))
	}
	return string(key)
}
