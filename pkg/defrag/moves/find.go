package moves

import (
	"cmp"
	"slices"
)

// Find returns the fewest moves that make room for a pod; among as few, those of the fewest milli-GPUs, and then those
// for the first node. ok is false when there are none within the limits.
//
// First it lists, for each node, the smallest sets of pods without which the pod fits there. Each set has a least number
// of moves: its pods, and one more for each of them that finds no room as things are. Then it looks for places, three
// times: without displacing anyone, which is quick; displacing single pods that find room themselves, as many as may be,
// which finds some plan even where next to nothing is free; and every way with one move, with two, and so on, up to the
// best plan known by then.
func Find[P comparable](cluster Cluster[P], pod P, limits Limits) (Plan[P], bool) {
	s := newSearch(cluster, pod, limits)
	clearings := s.clearings()
	s.sweep(clearings, func(c *clearing[P]) manner { return manner{tries: directTries} })
	s.sweep(clearings, func(c *clearing[P]) manner {
		return manner{extra: s.most() - len(c.leaving), single: true, tries: singleTries}
	})
	s.tries, s.limits.Tries = 0, limits.Tries/improvingShare
	for total := 1; total <= s.most() && s.tries < s.limits.Tries; total++ {
		s.sweep(clearings, func(c *clearing[P]) manner {
			return manner{extra: min(total, s.most()) - len(c.leaving), tries: s.limits.Tries / attemptShare}
		})
	}
	return s.best, s.found
}

// improvingShare is the part of the tries that goes on when some plan may be known.
const improvingShare = 4

// manner is how places are looked for.
type manner struct {
	// extra is how many pods may be displaced.
	extra int
	// single is whether only single pods may be that find room by themselves.
	single bool
	tries  int
}

// sweep looks for places for each clearing that could be better than the best that is known.
func (s *search[P]) sweep(clearings []clearing[P], how func(*clearing[P]) manner) {
	for i := range clearings {
		c := &clearings[i]
		if c.least > s.most() || s.tries > s.limits.Tries {
			return // and so are all after it
		}
		m := how(c)
		if m.extra < c.least-len(c.leaving) || s.found && c.least == s.most() && c.milli >= s.best.Milli {
			continue
		}
		if plan, found := s.settle(c, m); found && (!s.found || plan.beats(&s.best)) {
			s.best, s.found = plan, true
		}
	}
}

// most is how many moves a plan may have: no more than the best that is known.
func (s *search[P]) most() int {
	if s.found {
		return len(s.best.Moves)
	}
	return s.limits.Moves
}

func (p *Plan[P]) beats(other *Plan[P]) bool {
	return cmp.Or(cmp.Compare(len(p.Moves), len(other.Moves)), cmp.Compare(p.Milli, other.Milli)) < 0
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
	alone, together map[int][]clearing[P]
}

func newSearch[P comparable](cluster Cluster[P], pod P, limits Limits) *search[P] {
	s := &search[P]{
		Cluster: cluster, pod: pod, limits: limits, movable: make([][]P, cluster.Nodes()),
		homeless: map[int]bool{}, alone: map[int][]clearing[P]{}, together: map[int][]clearing[P]{},
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

// clearings returns the sets of pods that could leave a node for others, the most promising first. Whoever displaces
// whom, all other nodes together must have what they hold.
func (s *search[P]) clearings() []clearing[P] {
	var all []clearing[P]
	free := int64(0)
	for node := range s.movable {
		free += s.Free(node)
		all = append(all, s.clear(node, s.pod, s.limits.Moves)...)
	}
	return sorted(slices.DeleteFunc(all, func(c clearing[P]) bool {
		return c.least > s.limits.Moves || c.milli > free-s.Free(c.node)
	}))
}

// sorted sorts those first that take the fewest moves, and then those that hold least.
func sorted[P comparable](all []clearing[P]) []clearing[P] {
	slices.SortStableFunc(all, func(a, b clearing[P]) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.milli, b.milli))
	})
	return all
}
