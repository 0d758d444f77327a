package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// A node takes some mixtures of members of several roles. Whether all members fit on some nodes depends on all roles at once: counted role by
// role, two roles that each need the last node both have room on it.

const (
	// maxMixes is how many of the largest mixtures of a node are computed, and maxRoomQueries how often its room is queried for them.
	maxMixes, maxRoomQueries = 64, 512
	// unitWeight is the total weight of all members of a role that an empty node takes.
	unitWeight = 1 << 20
)

// mixesOf returns the largest mixtures of members of each role that a node takes, with no more of each than needed. room returns how many of a
// role it takes beside others, nil for none.
func mixesOf(want []int, room func(role int, beside []int) int) (mixes [][]int) {
	order := make([]int, len(want))
	for role := range order {
		order[role] = role
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
	counts, asked := make([]int, len(want)), 0
	var add func(at int)
	add = func(at int) {
		role, beside := order[at], counts
		if !slices.ContainsFunc(counts, func(count int) bool { return count > 0 }) {
			beside = nil
		}
		if asked++; asked > maxRoomQueries || len(mixes) == maxMixes {
			return
		}
		most := min(room(role, beside), want[role])
		for count := most; count >= 0; count-- {
			counts[role] = count
			if at+1 < len(order) {
				add(at + 1)
				continue
			}
			if !slices.ContainsFunc(mixes, func(mix []int) bool { return coversMix(mix, counts) }) {
				mixes = append(mixes, slices.Clone(counts))
			}
			break
		}
		counts[role] = 0
	}
	add(0)
	return slices.DeleteFunc(mixes, func(mix []int) bool { return sumCounts(mix) == 0 })
}

// coversMix reports whether a mixture has as many members of each role as another one.
func coversMix(mix, other []int) bool {
	for role := range mix {
		if mix[role] < other[role] {
			return false
		}
	}
	return true
}

// roleGroup is members of several roles that need places on some nodes together.
type roleGroup struct {
	want []int
	// nodes are by number, and mixes what each of them takes.
	nodes []int
	mixes func(node int) [][]int
	// spendSteps subtracts steps from the remaining ones, and returns false if there are too few.
	spendSteps func(steps int) bool
}

// placeAll returns how many members of each role each node takes so that all have a place, nil if that is impossible. When steps run out it may miss
// a placement.
func (c *roleGroup) placeAll() map[int][]int {
	weights := c.roleWeights()
	if !c.mayHoldAll(c.totalValue(weights), weights) {
		return nil
	}
	return c.placeByWeights(weights)
}

// placeByWeights is placeAll for nodes with sufficient total value.
func (c *roleGroup) placeByWeights(weights [2][]int) map[int][]int {
	if taken := c.placeGreedily(weights[1]); taken != nil {
		return taken
	}
	if taken := c.placeGreedily(c.scarcityWeights()); taken != nil {
		return taken
	}
	return c.placeExactly()
}

// roleWeights returns two ways to weigh a member of each role: all equal, and by the part of a node that it takes.
func (c *roleGroup) roleWeights() (weights [2][]int) {
	most := make([]int, len(c.want))
	for _, node := range c.nodes {
		for _, mix := range c.mixes(node) {
			for role, count := range mix {
				most[role] = max(most[role], count)
			}
		}
	}
	for i := range weights {
		weights[i] = make([]int, len(c.want))
	}
	for role := range c.want {
		weights[0][role], weights[1][role] = 1, unitWeight/max(1, most[role])
	}
	return weights
}

// totalValue returns the most that the nodes take by each of two weights.
func (c *roleGroup) totalValue(weights [2][]int) (value [2]int) {
	for _, node := range c.nodes {
		for i, of := range nodeValue(c.mixes(node), weights) {
			value[i] += of
		}
	}
	return value
}

// mayHoldAll reports whether nodes of a total value may take all members. If they take too little by either weight, no placement can succeed.
func (c *roleGroup) mayHoldAll(value [2]int, weights [2][]int) bool {
	return value[0] >= weighMembers(c.want, weights[0]) && value[1] >= weighMembers(c.want, weights[1])
}

// nodeValue is what a node takes at most by each of two weights.
func nodeValue(mixes [][]int, weights [2][]int) (value [2]int) {
	for _, mix := range mixes {
		for i := range value {
			value[i] = max(value[i], weighMembers(mix, weights[i]))
		}
	}
	return value
}

func weighMembers(counts, weight []int) (all int) {
	for role, count := range counts {
		all += weight[role] * count
	}
	return all
}

// scarcityWeights weighs the members of a role inversely to the number of nodes that take one.
func (c *roleGroup) scarcityWeights() []int {
	nodes, weight := make([]int, len(c.want)), make([]int, len(c.want))
	for _, node := range c.nodes {
		for role := range c.want {
			if slices.ContainsFunc(c.mixes(node), func(mix []int) bool { return mix[role] > 0 }) {
				nodes[role]++
			}
		}
	}
	for role := range weight {
		weight[role] = unitWeight / max(1, nodes[role])
	}
	return weight
}

// placeGreedily assigns to each node the mixture with the most weight of unplaced members.
func (c *roleGroup) placeGreedily(weight []int) map[int][]int {
	taken, left, missing := map[int][]int{}, slices.Clone(c.want), sumCounts(c.want)
	for _, node := range c.nodes {
		if missing == 0 {
			break
		}
		best, most := []int(nil), 0
		for _, mix := range c.mixes(node) {
			all := 0
			for role, count := range mix {
				all += weight[role] * min(count, left[role])
			}
			if all > most {
				best, most = mix, all
			}
		}
		if best == nil {
			continue
		}
		counts := make([]int, len(best))
		for role, count := range best {
			counts[role] = min(count, left[role])
			left[role] -= counts[role]
			missing -= counts[role]
		}
		taken[node] = counts
	}
	if missing > 0 {
		return nil
	}
	return taken
}

// placeJointly places members of several roles in a domain if placing one role after the other fails.
func (s *search) placeJointly(d *topology.Domain) *trial {
	known := map[int][][]int{}
	c := &roleGroup{want: s.Roles, nodes: d.Nodes, spendSteps: s.spendSteps, mixes: func(node int) [][]int {
		mixes, ok := known[node]
		if !ok {
			mixes = s.mixesOn(node, s.Roles)
			known[node] = mixes
		}
		return mixes
	}}
	taken := c.placeAll()
	if taken == nil {
		return nil
	}
	return &trial{taken: taken}
}

// CountPlaceable returns how many of the members have a place when all roles are counted together, wherever they lie. It returns the number of all
// members if they fit, as far as steps last, and else the number that was placed.
func CountPlaceable(p Problem) int {
	s, all := newSearch(&p), sumCounts(p.Roles)
	seated := all - sumCounts(s.placeInTurn())
	if seated == all {
		return all
	}
	nodes := slices.DeleteFunc(slices.Clone(p.Tree.Root.Nodes), func(node int) bool { return !s.hasRoom(node, p.Roles) })
	if s.placeJointly(&topology.Domain{Nodes: nodes}) != nil {
		return all
	}
	return seated
}

// hasRoom reports whether a node takes a member of a role that is still needed.
func (s *search) hasRoom(node int, want []int) bool {
	for role, count := range want {
		if count > 0 && s.free[role][node] > 0 {
			return true
		}
	}
	return false
}

func (s *search) mixesOn(node int, want []int) [][]int {
	return mixesOf(want, func(role int, beside []int) int {
		if beside == nil || s.free[role][node] == 0 {
			return s.free[role][node]
		}
		return s.Room(node, role, beside)
	})
}

// placeInTurn assigns to one node after the other the mixture with the most weight, where roles with less room weigh more, until all members are
// placed. It returns how many of each role have no place.
func (s *search) placeInTurn() (left []int) {
	left = slices.Clone(s.Roles)
	weight := make([]int, len(left))
	for role := range weight {
		weight[role] = unitWeight / max(1, min(unitWeight, sumCounts(s.free[role])))
	}
	for node := range s.Tree.InOrder() {
		if !s.hasRoom(node, left) {
			continue
		}
		var best []int
		for _, mix := range s.mixesOn(node, left) {
			if best == nil || weighMembers(mix, weight) > weighMembers(best, weight) {
				best = mix
			}
		}
		for role, count := range best {
			left[role] -= count
		}
		if sumCounts(left) == 0 {
			break
		}
	}
	return left
}
