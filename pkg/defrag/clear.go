package defrag

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// maxTries bounds the sets of pods that are looked at for one node. It is beyond what 16 cards with a pod on each need
// for 4 moves.
const maxTries = 3000

// clearing is a set of pods that leave a node so that another fits there.
type clearing struct {
	node  *fit.Node
	moved []*fit.Request
	cards int64 // that the moved pods ask for
}

func (c *clearing) beats(other *clearing) bool {
	if other == nil || len(c.moved) != len(other.moved) {
		return other == nil || len(c.moved) < len(other.moved)
	}
	return c.cards < other.cards
}

// clear finds the fewest moves that make room for a pod on any node; among as few, those of the fewest cards, and then
// the first node by name. why is set when there are none.
func (p *planner) clear(request *fit.Request) (best *clearing, why string) {
	why = whyNoNode
	for _, node := range p.nodes {
		if !request.InScope(node.Object) {
			continue
		}
		candidates := p.candidates(node, request)
		fits, couldFit := p.emptied(node, request, candidates)
		if couldFit && why == whyNoNode {
			why = whyFixed
		}
		if !fits {
			continue
		}
		why = whyNowhere
		search := &clearSearch{planner: p, node: node, request: request, candidates: candidates}
		if found := search.run(best); found != nil && found.beats(best) {
			best = found
		}
	}
	return best, why
}

// candidates are the pods that may leave a node for a pod that waits.
func (p *planner) candidates(node *fit.Node, request *fit.Request) []*fit.Request {
	return slices.DeleteFunc(slices.Clone(p.movable[node]), func(r *fit.Request) bool { return outranks(r.Pod, request.Pod) })
}

// emptied reports whether a pod fits a node once all candidates are gone, and whether it would fit if only more were.
func (p *planner) emptied(node *fit.Node, request *fit.Request, candidates []*fit.Request) (fits, couldFit bool) {
	var undo []func()
	for _, candidate := range candidates {
		undo = append(undo, node.Remove(candidate.Pod))
	}
	obstacles, cards := request.Obstacles(node)
	for _, back := range undo {
		back()
	}
	if len(obstacles) == 0 {
		return true, true
	}
	onlyOccupied := !slices.ContainsFunc(obstacles, func(o fit.Obstacle) bool { return !heals(o, cards) })
	return false, onlyOccupied
}

// heals reports whether pods that leave take an obstacle away.
func heals(o fit.Obstacle, cards gpu.Reason) bool {
	switch o.Kind {
	case fit.Cards:
		return cards.IsShortage()
	case fit.CPUShort, fit.MemoryShort, fit.ResourceShort, fit.PodLimit:
		return true
	}
	return false
}

// clearSearch tries sets of pods of one node, the small ones first.
type clearSearch struct {
	planner    *planner
	node       *fit.Node
	request    *fit.Request
	candidates []*fit.Request
	chosen     []*fit.Request
	tries      int
	best       *clearing
}

// run returns the smallest set of pods that can leave the node for others and makes room, nil if there is none that
// beats what is known.
func (s *clearSearch) run(known *clearing) *clearing {
	most := min(s.planner.limits.Moves, len(s.candidates))
	if known != nil {
		most = min(most, len(known.moved))
	}
	for size := 1; size <= most && s.best == nil && s.tries < maxTries; size++ {
		s.choose(0, size)
	}
	return s.best
}

// choose takes size more pods away, of those from a position on.
func (s *clearSearch) choose(from, size int) {
	if size == 0 {
		s.judge()
		return
	}
	for i := from; i+size <= len(s.candidates) && s.tries < maxTries; i++ {
		undo := s.node.Remove(s.candidates[i].Pod)
		s.chosen = append(s.chosen, s.candidates[i])
		s.choose(i+1, size-1)
		s.chosen = s.chosen[:len(s.chosen)-1]
		undo()
	}
}

// judge keeps the pods that are away now, if the pod that waits fits and they have somewhere to go.
func (s *clearSearch) judge() {
	s.tries++
	found := &clearing{node: s.node, moved: slices.Clone(s.chosen)}
	for _, r := range found.moved {
		found.cards += asked(r)
	}
	if !found.beats(s.best) {
		return
	}
	if obstacles, _ := s.request.Obstacles(s.node); len(obstacles) > 0 {
		return
	}
	if _, undo, ok := s.planner.relocate(found); ok {
		undo()
		s.best = found
	}
}

// relocate places pods that have left their node on others. The function it returns takes them away from there again.
func (p *planner) relocate(c *clearing) (moves []Move, undo func(), ok bool) {
	var placed []func()
	undo = func() {
		for _, back := range slices.Backward(placed) {
			back()
		}
	}
	for _, r := range c.moved {
		to := p.roomFor(r, c.node)
		if to == nil || !to.Place(r) {
			undo()
			return nil, nil, false
		}
		placed = append(placed, func() { to.Remove(r.Pod) })
		moves = append(moves, Move{Ref: refOf(r.Pod), From: c.node.Object.Name, To: to.Object.Name})
	}
	return moves, undo, true
}

// take makes the moves of a clearing and puts the pod in their place.
func (p *planner) take(c *clearing, request *fit.Request, proposal Proposal) (Proposal, func(), string) {
	var returned []func()
	for _, r := range c.moved {
		returned = append(returned, c.node.Remove(r.Pod))
	}
	moves, back, ok := p.relocate(c)
	if !ok || !c.node.Place(request) {
		for _, undo := range returned {
			undo()
		}
		return proposal, nil, whyNowhere
	}
	p.movable[c.node] = slices.DeleteFunc(slices.Clone(p.movable[c.node]), func(r *fit.Request) bool { return slices.Contains(c.moved, r) })
	proposal.Node, proposal.Moves = c.node.Object.Name, moves
	return proposal, func() {
		c.node.Remove(request.Pod)
		back()
		for _, undo := range returned {
			undo()
		}
	}, ""
}
