package moves

import (
	"cmp"
	"slices"
)

// Find returns the fewest moves that make room for a pod; among as few, those of the fewest milli-GPUs, and then those
// for the first node. ok is false when there are none within the limits.
//
// First it lists, for each node, the smallest sets of pods without which the pod fits there. Each set has a least number
// of moves: its pods, and one more for each of them that finds no room as things are. Then it looks for places, by one
// strategy after another: directly, with chains of single pods, and thoroughly with one move, with two, and so on, up to
// the best plan known by then.
func Find[P comparable](cluster Cluster[P], pod P, limits Limits) (Plan[P], bool) {
	s := newSearch(cluster, pod, limits)
	evictions := s.evictions()
	s.sweep(evictions, direct[P]())
	s.sweep(evictions, s.chains())
	s.tries, s.limits.Tries = 0, limits.Tries/improvingShare
	for total := 1; total <= s.most() && s.tries < s.limits.Tries; total++ {
		s.sweep(evictions, s.thorough(total))
	}
	return s.best, s.found
}

// search is one search.
type search[P comparable] struct {
	Cluster[P]
	pod     P
	limits  Limits
	tries   int
	best    Plan[P]
	found   bool
	movable [][]P // by node, as it was in the beginning
	// homeless are the kinds of pods that find no room as things are. alone are the pods whose place would do for a pod of
	// a kind, together those of a node of which several would have to go.
	homeless        map[int]bool
	alone, together map[int][]eviction[P]
}

func newSearch[P comparable](cluster Cluster[P], pod P, limits Limits) *search[P] {
	s := &search[P]{
		Cluster: cluster, pod: pod, limits: limits, movable: make([][]P, cluster.Nodes()),
		homeless: map[int]bool{}, alone: map[int][]eviction[P]{}, together: map[int][]eviction[P]{},
	}
	for node := range s.movable {
		s.movable[node] = cluster.Movable(node)
		for _, pod := range s.movable[node] {
			kind := s.Kind(pod)
			if _, known := s.homeless[kind]; !known {
				s.homeless[kind] = len(s.Rooms(pod, -1)) == 0
			}
		}
	}
	return s
}

// most is how many moves a plan may have: no more than the best that is known.
func (s *search[P]) most() int {
	if s.found {
		return len(s.best.Moves)
	}
	return s.limits.Moves
}

// sweep looks for places for each eviction that could be better than the best that is known.
func (s *search[P]) sweep(evictions []eviction[P], how strategy[P]) {
	for i := range evictions {
		e := &evictions[i]
		if e.least > s.most() || s.tries > s.limits.Tries {
			return // and so are all after it
		}
		if how.extra(e) < e.least-len(e.pods) || s.found && e.least == s.most() && e.milli >= s.best.Milli {
			continue
		}
		if plan, found := s.settle(e, how); found && (!s.found || plan.beats(&s.best)) {
			s.best, s.found = plan, true
		}
	}
}

// settle looks for places for the pods of an eviction. When there is none for one of them, another may have taken it: then
// that one chooses first. What an attempt would have had to know is looked up after it, for the next. A plan that cannot be
// made in its order has the next keep pods off the nodes that wait for them.
func (s *search[P]) settle(e *eviction[P], how strategy[P]) (Plan[P], bool) {
	until, pods, extra := min(s.limits.Tries, s.tries+how.tries), slices.Clone(e.pods), how.extra(e)
	strict := false
	for reordered := 0; ; {
		a := &attempt[P]{search: s, node: e.node, single: how.single, strict: strict, until: until, evicted: map[P]bool{}, left: len(pods) + 1}
		plan, ok := a.run(pods, extra)
		switch {
		case ok && s.canBeMade(&plan):
			return plan, true
		case s.tries > until || ok && strict:
			return Plan[P]{}, false
		case ok:
			strict = true
			continue
		}
		if a.lookUp() {
			continue
		}
		stuck := slices.Index(pods, a.stuck)
		if stuck < 1 || reordered == len(pods) {
			return Plan[P]{}, false
		}
		pods = slices.Insert(slices.Delete(pods, stuck, stuck+1), 0, a.stuck)
		reordered++
	}
}

func (p *Plan[P]) beats(other *Plan[P]) bool {
	return cmp.Or(cmp.Compare(len(p.Moves), len(other.Moves)), cmp.Compare(p.Milli, other.Milli)) < 0
}
