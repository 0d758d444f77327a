package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// roleFilling places the members of one role.
type roleFilling struct {
	*search
	// room is how many of them each node takes.
	room []int
	want int
	// standing and onNode are how many placed members each domain and each node has.
	standing map[*topology.Domain]int
	onNode   map[int]int
	// weight is the value of a pair of members in one domain: more than all room that could be left.
	weight int
	// division is the segments of the role, nil for none. segmentsByDomain is how many of each size a domain takes.
	division         *division
	segmentsByDomain map[*topology.Domain][]int
}

// recordStanding records placed members.
func (f *roleFilling) recordStanding(nodes []int) {
	f.standing, f.onNode = map[*topology.Domain]int{}, map[int]int{}
	for _, node := range nodes {
		f.onNode[node]++
		for level := range f.Tree.Levels {
			f.standing[f.Tree.NodeDomain(node, level)]++
		}
	}
}

// fillDomain returns how many members each node of a domain takes, and false if they have no room there.
func (f *roleFilling) fillDomain(d *topology.Domain) (map[int]int, bool) {
	all := 0
	for _, node := range d.Nodes {
		all += f.room[node]
	}
	if all < f.want {
		return nil, false
	}
	f.weight = 1 + (len(f.Tree.Levels)+1)*all
	counts := map[int]int{}
	if f.division != nil {
		return counts, f.fillSegments(d, counts)
	}
	if f.spendSteps(f.countSteps(d)) {
		f.bestTable(d).takeMembers(f, f.want, counts)
	} else {
		f.fillGreedily(d, f.want, counts)
	}
	return counts, true
}

// spendSteps subtracts steps from the remaining ones, and returns false if there are too few.
func (p *Problem) spendSteps(steps int) bool {
	if p.Steps == nil || steps > *p.Steps {
		return false
	}
	*p.Steps -= steps
	return true
}

// countSteps returns how many steps the exact search of a domain takes.
func (f *roleFilling) countSteps(d *topology.Domain) int {
	steps, before := len(d.Nodes), 0
	if len(d.Children) == 0 {
		room := f.roomOf(d)
		for node := range f.onNode {
			steps += (room + 1) * (min(f.room[node], room) + 1)
		}
	}
	limit, _ := f.tableLimit(d)
	for _, child := range d.Children {
		size := f.tableSize(child)
		steps += f.countSteps(child) + (before+1)*(size+1)
		before = min(before+size, limit)
	}
	return steps
}

// roomOf returns how many of the members a domain takes.
func (f *roleFilling) roomOf(d *topology.Domain) int {
	room := 0
	for _, node := range d.Nodes {
		room += f.room[node]
	}
	return min(room, f.want)
}

// worthTable is the value of the best way to place each number of members in a domain, and how the members are divided.
type worthTable struct {
	worth []int // by the number of members, or by the index of segments
	// children are the tables of its subdomains. split is how many members the child takes when it and those before it have so many.
	children []*worthTable
	split    [][]int32
	// nodes are nodes of an innermost domain, the most room first.
	nodes []int
	// inner is the table by members of a segment's domain, from which this table by segments is derived.
	inner  *worthTable
	domain *topology.Domain
}

// bestTable computes the table of a domain from those of its subdomains.
func (f *roleFilling) bestTable(d *topology.Domain) *worthTable {
	t := &worthTable{worth: []int{0}}
	limit, per := f.tableLimit(d)
	for _, child := range d.Children {
		t.joinChild(f.bestTable(child), limit, per)
	}
	if len(d.Children) == 0 {
		for _, nodes := range f.nodesInDomain(d) {
			t.joinChild(f.tableOfNodes(nodes), limit, per)
		}
	}
	if d.Level < 0 {
		return t
	}
	room, standing := 0, f.standing[d]
	for _, node := range d.Nodes {
		room += f.room[node]
	}
	for i := range t.worth {
		if n := f.membersAt(d, i); n > 0 {
			t.worth[i] += f.weight*n*(n+2*standing) - (room - n)
		}
	}
	if f.division != nil && d.Level == f.division.level {
		return f.tableBySegments(d, t)
	}
	return t
}

// joinChild adds a child to a domain, up to a last index. per is that of [division.indexStride].
func (t *worthTable) joinChild(child *worthTable, limit, per int) {
	size := min(len(t.worth)+len(child.worth)-1, limit+1)
	worth, split := make([]int, size), make([]int32, size)
	for n := range worth {
		worth[n] = impossibleWorth
	}
	for before, a := range t.worth {
		if a < impossibleWorth/2 {
			continue
		}
		for n, b := range child.worth {
			if before+n >= size {
				break
			}
			if per > 1 && before%per+n%per >= per {
				continue
			}
			if sum := a + b; sum >= worth[before+n] { // among equals, the one that fills the first
				worth[before+n], split[before+n] = sum, int32(n)
			}
		}
	}
	t.worth = worth
	t.children, t.split = append(t.children, child), append(t.split, split)
}

// nodesInDomain lists the nodes of an innermost domain that have room: those with members one by one, and the others together, sorted by room and
// then by name.
func (f *roleFilling) nodesInDomain(d *topology.Domain) [][]int {
	var lists [][]int
	var others []int
	for _, node := range d.Nodes {
		switch {
		case f.room[node] == 0:
		case f.onNode[node] > 0:
			lists = append(lists, []int{node})
		default:
			others = append(others, node)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(f.room[b], f.room[a]) })
	return append(lists, others)
}

// tableOfNodes fills nodes without members, or a single node: the nodes with the most room first, and the rest where the least room remains. That
// yields the most pairs on one node.
func (f *roleFilling) tableOfNodes(nodes []int) *worthTable {
	t := &worthTable{nodes: nodes}
	room, standing := 0, 0
	for _, node := range nodes {
		room += f.room[node]
		standing += f.onNode[node]
	}
	t.worth = make([]int, min(room, f.want)+1)
	full, filled, done := 0, 0, 0 // worth of full nodes, members on them, how many they are
	for n := 1; n < len(t.worth); n++ {
		for done < len(nodes) && filled+f.room[nodes[done]] <= n {
			room := f.room[nodes[done]]
			full += f.weight * room * (room + 2*standing)
			filled += room
			done++
		}
		t.worth[n] = full
		if rest := n - filled; rest > 0 {
			node := f.tightestNode(nodes[done:], rest)
			t.worth[n] += f.weight*rest*(rest+2*standing) - (f.room[node] - rest)
		}
	}
	return t
}

// tightestNode returns the node with the least room for so many members, the first among equals, from a list sorted by decreasing room.
func (f *roleFilling) tightestNode(nodes []int, members int) int {
	behind, _ := slices.BinarySearchFunc(nodes, members, func(node, members int) int {
		if f.room[node] >= members {
			return -1
		}
		return 1
	})
	room := f.room[nodes[behind-1]]
	first, _ := slices.BinarySearchFunc(nodes, room, func(node, room int) int {
		if f.room[node] > room {
			return -1
		}
		return 1
	})
	return nodes[first]
}

// takeMembers records where so many members go.
func (t *worthTable) takeMembers(f *roleFilling, members int, counts map[int]int) {
	if t.inner != nil {
		f.segmentsByDomain[t.domain] = f.division.countsAt(members)
		t.inner.takeMembers(f, f.division.pinned[t.domain]+f.division.countMembers(members), counts)
		return
	}
	for i := len(t.children) - 1; i >= 0; i-- {
		n := int(t.split[i][members])
		t.children[i].takeMembers(f, n, counts)
		members -= n
	}
	f.fillNodes(t.nodes, members, counts)
}

// fillNodes divides members among nodes as tableOfNodes does.
func (f *roleFilling) fillNodes(nodes []int, members int, counts map[int]int) {
	for members > 0 {
		node := nodes[0]
		if f.room[node] > members {
			node = f.tightestNode(nodes, members)
		}
		n := min(f.room[node], members)
		counts[node] += n
		members -= n
		nodes = nodes[1:]
	}
}

// fillGreedily fills the largest domains first, and puts the rest where the least room remains.
func (f *roleFilling) fillGreedily(d *topology.Domain, members int, counts map[int]int) {
	if len(d.Children) == 0 {
		for _, nodes := range f.nodesInDomain(d) {
			n := 0
			for _, node := range nodes {
				n += f.room[node]
			}
			n = min(n, members)
			f.fillNodes(nodes, n, counts)
			members -= n
		}
		return
	}
	type child struct {
		*topology.Domain
		room int
	}
	children := make([]child, len(d.Children))
	for i, domain := range d.Children {
		children[i] = child{domain, f.roomOf(domain)}
	}
	slices.SortStableFunc(children, func(a, b child) int { return cmp.Compare(b.room, a.room) })
	for i := 0; members > 0; i++ {
		next := children[i]
		for _, smaller := range children[i+1:] {
			if smaller.room >= members {
				next = smaller
			}
		}
		n := min(next.room, members)
		f.fillGreedily(next.Domain, n, counts)
		members -= n
	}
}
