package moves

import "slices"

// Bounds for one node. They are beyond what 16 cards with a pod on each need.
const (
	maxDecisions = 3000
	maxClearings = 64
)

// clearing is a set of pods of a node without which another fits there.
type clearing[P comparable] struct {
	node int
	// leaving are the pods, those that hold most first.
	leaving []P
	milli   int64
	// least is the least number of moves that this takes: one more for each that finds no room as things are.
	least int
}

// clear returns the sets of pods, up to a size, without which a pod fits on their node and none of which could stay.
func (s *search[P]) clear(node int, pod P, most int) []clearing[P] {
	c := clearingOf[P]{search: s, pod: pod, most: most, node: node, candidates: s.movable[node]}
	for _, candidate := range c.candidates {
		c.back = append(c.back, s.Take(candidate, node))
	}
	if s.Fits(pod, node) {
		c.decide(len(c.candidates)-1, nil)
	}
	for _, undo := range slices.Backward(c.back) {
		undo()
	}
	return c.found
}

// clearingOf decides about the pods of one node who stays, when all are away.
type clearingOf[P comparable] struct {
	*search[P]
	pod        P // that shall fit
	most       int
	node       int
	candidates []P
	back       []func() // put the candidates back
	decisions  int
	found      []clearing[P]
	kinds      [][]int // of what was found
}

// decide has the candidates up to a position stay or leave, the small ones first: who stays costs nothing. Where one
// that stays is in the way, so are all sets of which it is none.
func (c *clearingOf[P]) decide(at int, leaving []P) {
	if c.decisions++; c.decisions > maxDecisions || len(leaving) > c.most || len(c.found) == maxClearings {
		return
	}
	if at < 0 {
		c.keep(leaving)
		return
	}
	if c.returns(at) {
		c.decide(at-1, leaving)
		c.back[at] = c.Take(c.candidates[at], c.node)
	}
	c.decide(at-1, append(slices.Clip(leaving), c.candidates[at]))
}

// returns puts a candidate back, unless it is in the way.
func (c *clearingOf[P]) returns(at int) bool {
	c.back[at]()
	if c.Fits(c.pod, c.node) {
		return true
	}
	c.back[at] = c.Take(c.candidates[at], c.node)
	return false
}

// keep notes a set, unless one of the pods could stay, or it is as good as another.
func (c *clearingOf[P]) keep(leaving []P) {
	if len(leaving) == 0 {
		return
	}
	kinds := make([]int, len(leaving))
	for i, pod := range leaving {
		at := slices.Index(c.candidates, pod)
		if c.returns(at) {
			c.back[at] = c.Take(pod, c.node)
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
	c.found = append(c.found, c.clearing(c.node, leaving))
}

func (s *search[P]) clearing(node int, leaving []P) clearing[P] {
	c := clearing[P]{node: node, leaving: leaving, least: len(leaving)}
	for _, pod := range leaving {
		c.milli += s.Milli(pod)
		if s.homeless[s.Kind(pod)] {
			c.least++
		}
	}
	return c
}
