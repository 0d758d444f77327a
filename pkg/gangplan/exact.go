package gangplan

import "slices"

// placementTable is a dynamic programming table of placed members: indexed by the numbers of all roles but one, with the maximum of the
// remaining role.
type placementTable struct {
	most []int32
	// mix and from are the mixture of the last node, and the index before it, that led to each entry; mix -1 is none.
	mix  []int16
	from []int32
}

// placeExactly searches exhaustively, as far as steps last: node by node, for all numbers of members of each role but the largest one.
func (c *roleGroup) placeExactly() map[int][]int {
	last, states := 0, 1
	for role := range c.want {
		if c.want[role] > c.want[last] {
			last = role
		}
	}
	stride := make([]int, len(c.want))
	for role, count := range c.want {
		if role != last {
			stride[role] = states
			states *= count + 1
			if states > 1<<20 {
				return nil
			}
		}
	}
	steps := 0
	for _, node := range c.nodes {
		steps += states * (1 + len(c.mixes(node)))
	}
	if !c.spendSteps(steps) {
		return nil
	}
	all := make([]placementTable, 1, len(c.nodes)+1)
	all[0] = placementTable{most: make([]int32, states)}
	for i := range all[0].most {
		all[0].most[i] = -1
	}
	all[0].most[0] = 0
	for _, node := range c.nodes {
		all = append(all, c.addNode(&all[len(all)-1], node, stride, last))
		if at := &all[len(all)-1]; int(at.most[states-1]) == c.want[last] {
			return c.tracePlacement(all, states-1)
		}
	}
	return nil
}

// addNode returns the table with one more node.
func (c *roleGroup) addNode(before *placementTable, node int, stride []int, last int) placementTable {
	next := placementTable{most: slices.Clone(before.most), mix: make([]int16, len(before.most)), from: make([]int32, len(before.most))}
	for i := range next.mix {
		next.mix[i], next.from[i] = -1, int32(i)
	}
	for number, mix := range c.mixes(node) {
		for from, most := range before.most {
			if most < 0 {
				continue
			}
			to := 0
			for role, width := range stride {
				if role != last {
					to += width * min(from/width%(c.want[role]+1)+mix[role], c.want[role])
				}
			}
			if sum := min(most+int32(mix[last]), int32(c.want[last])); sum > next.most[to] {
				next.most[to], next.mix[to], next.from[to] = sum, int16(number), int32(from)
			}
		}
	}
	return next
}

// tracePlacement goes back over the nodes, and assigns to each what it takes.
func (c *roleGroup) tracePlacement(all []placementTable, at int) map[int][]int {
	taken, left := map[int][]int{}, slices.Clone(c.want)
	for i := len(all) - 1; i > 0; i-- {
		mix := all[i].mix[at]
		at = int(all[i].from[at])
		if mix < 0 {
			continue
		}
		node := c.nodes[i-1]
		counts := slices.Clone(c.mixes(node)[mix])
		for role := range counts {
			counts[role] = min(counts[role], left[role])
			left[role] -= counts[role]
		}
		taken[node] = counts
	}
	return taken
}
