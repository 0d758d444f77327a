package moves

import (
	"cmp"
	"slices"
)

// Bounds for one node. They are beyond what 16 cards with a pod on each need.
const (
	maxDecisions = 3000
	maxEvictions = 64
)

// eviction is a set of pods of a node without which another fits there.
type eviction[P comparable] struct {
	node int
	// pods leave the node, those that hold most first.
	pods  []P
	milli int64
	// least is the least number of moves that this takes: one more for each that finds no room as things are.
	least int
}

func (s *search[P]) eviction(node int, pods []P) eviction[P] {
	e := eviction[P]{node: node, pods: pods, least: len(pods)}
	for _, pod := range pods {
		e.milli += s.Milli(pod)
		if s.homeless[s.Kind(pod)] {
			e.least++
		}
	}
	return e
}

// evictions returns the sets of pods that could leave a node for the pod that is to fit, the most promising first. However
// pods displace each other, all other nodes together must have what they hold.
func (s *search[P]) evictions() []eviction[P] {
	var all []eviction[P]
	free := int64(0)
	for node := range s.movable {
		free += s.Free(node)
		all = append(all, s.evictionsFrom(node, s.pod, s.limits.Moves)...)
	}
	return sorted(slices.DeleteFunc(all, func(e eviction[P]) bool {
		return e.least > s.limits.Moves || e.milli > free-s.Free(e.node)
	}))
}

// sorted sorts those first that take the fewest moves, and then those that hold least.
func sorted[P comparable](all []eviction[P]) []eviction[P] {
	slices.SortStableFunc(all, func(a, b eviction[P]) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.milli, b.milli))
	})
	return all
}

// evictionsFrom returns the sets of pods, up to a size, without which a pod fits on their node and none of which could
// stay.
func (s *search[P]) evictionsFrom(node int, pod P, most int) []eviction[P] {
	c := chooser[P]{search: s, pod: pod, most: most, node: node, candidates: s.movable[node], back: make([]func(), len(s.movable[node]))}
	for at := range c.candidates {
		c.take(at)
	}
	if s.Fits(pod, node) {
		c.choose(len(c.candidates)-1, nil)
	}
	for at := range slices.Backward(c.candidates) {
		c.putBack(at)
	}
	return c.found
}

// chooser decides which pods of one node leave it. All are away in the beginning.
type chooser[P comparable] struct {
	*search[P]
	pod        P // that shall fit
	most       int
	node       int
	candidates []P
	back       []func() // what puts each candidate back
	decisions  int
	found      []eviction[P]
	kinds      [][]int // of what was found
}

func (c *chooser[P]) take(at int) { c.back[at] = c.Take(c.candidates[at], c.node) }

func (c *chooser[P]) putBack(at int) { c.back[at]() }

// couldStay reports whether the pod fits beside a candidate that is away, and those that are back.
func (c *chooser[P]) couldStay(at int) bool {
	c.putBack(at)
	defer c.take(at)
	return c.Fits(c.pod, c.node)
}

// choose has the candidates up to a position stay or leave, the small ones first: who stays costs nothing. Where one
// that stays is in the way, so are all sets of which it is none.
func (c *chooser[P]) choose(at int, leaving []P) {
	if c.decisions++; c.decisions > maxDecisions || len(leaving) > c.most || len(c.found) == maxEvictions {
		return
	}
	if at < 0 {
		c.note(leaving)
		return
	}
	if c.couldStay(at) {
		c.putBack(at)
		c.choose(at-1, leaving)
		c.take(at)
	}
	c.choose(at-1, append(slices.Clip(leaving), c.candidates[at]))
}

// note notes a set, unless one of the pods could stay, or it is as good as another.
func (c *chooser[P]) note(leaving []P) {
	if len(leaving) == 0 {
		return
	}
	kinds := make([]int, len(leaving))
	for i, pod := range leaving {
		if c.couldStay(slices.Index(c.candidates, pod)) {
			return
		}
		kinds[i] = c.Kind(pod)
	}
	slices.Sort(kinds)
	if slices.ContainsFunc(c.kinds, func(known []int) bool { return slices.Equal(known, kinds) }) {
		return
	}
	leaving = slices.Clone(leaving)
	slices.Reverse(leaving)
	c.kinds = append(c.kinds, kinds)
	c.found = append(c.found, c.eviction(c.node, leaving))
}
