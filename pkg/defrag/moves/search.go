package moves

import (
	"cmp"
	"slices"
)

// Find returns the fewest moves that make room for a pod; among equals, those of the fewest milli-GPUs, and then those for the first node. ok is
// false if there are none within the limits.
//
// First it lists, for each node, the minimal sets of pods without which the pod fits there. Each set has a lower bound of moves: its pods, and one
// more for each of them that currently finds no room. Then it searches places with one strategy after another: directly, with chains of single pods,
// and thoroughly with one move, two, and so on, up to the best known plan.
func Find[P comparable](cluster Cluster[P], pod P, limits Limits) (Plan[P], bool) {
	s := newSearch(cluster, pod, limits)
	evictions := s.findEvictions()
	s.searchEvictions(evictions, directStrategy[P]())
	s.searchEvictions(evictions, s.chainStrategy())
	s.tries, s.limits.Tries = 0, limits.Tries/improvingShare
	for total := 1; total <= s.maxMoves() && s.tries < s.limits.Tries; total++ {
		s.searchEvictions(evictions, s.thoroughStrategy(total))
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
	movable [][]P // by node, in the initial state
	// roomless are the classes of pods that currently find no room. alone are the pods in whose place a pod of a class fits, and together the sets of
	// several pods of a node.
	roomless        map[int]bool
	alone, together map[int][]eviction[P]
}

func newSearch[P comparable](cluster Cluster[P], pod P, limits Limits) *search[P] {
	s := &search[P]{
		Cluster: cluster, pod: pod, limits: limits, movable: make([][]P, cluster.CountNodes()),
		roomless: map[int]bool{}, alone: map[int][]eviction[P]{}, together: map[int][]eviction[P]{},
	}
	for node := range s.movable {
		s.movable[node] = cluster.MovablePods(node)
		for _, pod := range s.movable[node] {
			kind := s.PodClass(pod)
			if _, known := s.roomless[kind]; !known {
				s.roomless[kind] = len(s.NodesWithRoom(pod, -1)) == 0
			}
		}
	}
	return s
}

// maxMoves returns the most moves of a plan: those of the best known plan, or the limit.
func (s *search[P]) maxMoves() int {
	if s.found {
		return len(s.best.Moves)
	}
	return s.limits.Moves
}

// searchEvictions searches places for each eviction that could beat the best known plan.
func (s *search[P]) searchEvictions(evictions []eviction[P], how strategy[P]) {
	for i := range evictions {
		e := &evictions[i]
		if e.least > s.maxMoves() || s.tries > s.limits.Tries {
			return // the same holds for all after it
		}
		if how.extra(e) < e.least-len(e.pods) || s.found && e.least == s.maxMoves() && e.milli >= s.best.Milli {
			continue
		}
		if plan, found := s.placeEviction(e, how); found && (!s.found || plan.isBetterThan(&s.best)) {
			s.best, s.found = plan, true
		}
	}
}

// placeEviction searches places for the pods of an eviction. If one of them finds none, another may have taken it: then that one chooses first. Missing
// lookups are made after an attempt, for the next one. If a plan is impossible in its order, the next attempt keeps pods off the nodes that wait for
// them.
func (s *search[P]) placeEviction(e *eviction[P], how strategy[P]) (Plan[P], bool) {
	until, pods, extra := min(s.limits.Tries, s.tries+how.tries), slices.Clone(e.pods), how.extra(e)
	strict := false
	for reordered := 0; ; {
		a := &attempt[P]{search: s, node: e.node, single: how.single, strict: strict, until: until, evicted: map[P]bool{}, left: len(pods) + 1}
		plan, ok := a.runAttempt(pods, extra)
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

func (p *Plan[P]) isBetterThan(other *Plan[P]) bool {
	return cmp.Or(cmp.Compare(len(p.Moves), len(other.Moves)), cmp.Compare(p.Milli, other.Milli)) < 0
}
