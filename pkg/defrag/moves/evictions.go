package moves

import (
	"cmp"
	"slices"
)

// Bounds for one node. They exceed what 16 GPUs with a pod on each need.
const (
	maxDecisions = 3000
	maxEvictions = 64
)

// eviction is a set of pods of a node without which another pod fits there.
type eviction[P comparable] struct {
	node int
	// pods leave the node, the largest first.
	pods  []P
	milli int64
	// least is the minimum number of moves: one more for each pod that currently finds no room.
	least int
}

func (s *search[P]) newEviction(node int, pods []P) eviction[P] {
	e := eviction[P]{node: node, pods: pods, least: len(pods)}
	for _, pod := range pods {
		e.milli += s.PodMilli(pod)
		if s.roomless[s.PodClass(pod)] {
			e.least++
		}
	}
	return e
}

// findEvictions returns the sets of pods that could leave a node for the pod to place, the most promising first. All other nodes together must have room
// for them, however pods displace each other.
func (s *search[P]) findEvictions() []eviction[P] {
	var all []eviction[P]
	free := int64(0)
	for node := range s.movable {
		free += s.FreeMilli(node)
		all = append(all, s.evictionsFrom(node, s.pod, s.limits.Moves)...)
	}
	return sortEvictions(slices.DeleteFunc(all, func(e eviction[P]) bool {
		return e.least > s.limits.Moves || e.milli > free-s.FreeMilli(e.node)
	}))
}

// sortEvictions sorts sets that need the fewest moves first, then the smallest.
func sortEvictions[P comparable](all []eviction[P]) []eviction[P] {
	slices.SortStableFunc(all, func(a, b eviction[P]) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.milli, b.milli))
	})
	return all
}

// evictionsFrom returns the sets of pods, up to a size, without which a pod fits on their node and of which none could stay.
func (s *search[P]) evictionsFrom(node int, pod P, most int) []eviction[P] {
	c := chooser[P]{search: s, pod: pod, most: most, node: node, candidates: s.movable[node], back: make([]func(), len(s.movable[node]))}
	for at := range c.candidates {
		c.takeAway(at)
	}
	if s.FitsOn(pod, node) {
		c.chooseLeaving(len(c.candidates)-1, nil)
	}
	for at := range slices.Backward(c.candidates) {
		c.putBack(at)
	}
	return c.found
}

// chooser chooses which pods leave one node. Initially all are removed.
type chooser[P comparable] struct {
	*search[P]
	pod        P // to place
	most       int
	node       int
	candidates []P
	back       []func() // what puts each candidate back
	decisions  int
	found      []eviction[P]
	classes    [][]int // of the found sets
}

func (c *chooser[P]) takeAway(at int) { c.back[at] = c.RemovePod(c.candidates[at], c.node) }

func (c *chooser[P]) putBack(at int) { c.back[at]() }

// couldStay reports whether the pod fits beside a removed candidate and those put back.
func (c *chooser[P]) couldStay(at int) bool {
	c.putBack(at)
	defer c.takeAway(at)
	return c.FitsOn(c.pod, c.node)
}

// chooseLeaving decides for the candidates up to a position whether they stay or leave, the small ones first, because staying is free. If a staying pod
// blocks the way, so do all sets without it.
func (c *chooser[P]) chooseLeaving(at int, leaving []P) {
	if c.decisions++; c.decisions > maxDecisions || len(leaving) > c.most || len(c.found) == maxEvictions {
		return
	}
	if at < 0 {
		c.addFound(leaving)
		return
	}
	if c.couldStay(at) {
		c.putBack(at)
		c.chooseLeaving(at-1, leaving)
		c.takeAway(at)
	}
	c.chooseLeaving(at-1, append(slices.Clip(leaving), c.candidates[at]))
}

// addFound records a set, unless one of its pods could stay, or an equivalent set is known.
func (c *chooser[P]) addFound(leaving []P) {
	if len(leaving) == 0 {
		return
	}
	kinds := make([]int, len(leaving))
	for i, pod := range leaving {
		if c.couldStay(slices.Index(c.candidates, pod)) {
			return
		}
		kinds[i] = c.PodClass(pod)
	}
	slices.Sort(kinds)
	if slices.ContainsFunc(c.classes, func(known []int) bool { return slices.Equal(known, kinds) }) {
		return
	}
	leaving = slices.Clone(leaving)
	slices.Reverse(leaving)
	c.classes = append(c.classes, kinds)
	c.found = append(c.found, c.newEviction(c.node, leaving))
}
