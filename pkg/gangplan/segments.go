package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// Segments divide the members that need a place into parts, each of which lies in one domain of a level.
type Segments struct {
	// Level is that of the tree.
	Level int
	// All are the segments, by the rank of their first member.
	All []Segment
	// Preferred says that members may be placed otherwise if the domains do not have room for all segments.
	Preferred bool
}

// Segment is some members of one role, one at least.
type Segment struct {
	Role, Count int
	// Beside is the node of a placed member of the segment, -1 for none.
	Beside int
}

// division is the segments of one role.
type division struct {
	tree  *topology.Tree
	level int
	// domains are all domains of the level, in topology order.
	domains  []*topology.Domain
	segments []Segment
	// bound are the sizes of the segments that have to go to a domain, since members of theirs are there. pinned is how many members these have,
	// also by the wider domains around it.
	bound  map[*topology.Domain][]int
	pinned map[*topology.Domain]int
	// sizes are those of all other segments, each once, the largest first, and counts how many are of each.
	sizes, counts []int
}

func divideSegments(p *Problem) []*division {
	if p.Segments == nil {
		return nil
	}
	divisions := make([]*division, len(p.Roles))
	for role := range divisions {
		divisions[role] = &division{
			tree: p.Tree, level: p.Segments.Level, domains: domainsOf(p.Tree.Root, p.Segments.Level, nil),
			bound: map[*topology.Domain][]int{}, pinned: map[*topology.Domain]int{},
		}
	}
	for _, segment := range p.Segments.All {
		divisions[segment.Role].addSegment(segment)
	}
	return divisions
}

// domainsOf appends the domains of a level that lie in a domain, or are it.
func domainsOf(d *topology.Domain, level int, to []*topology.Domain) []*topology.Domain {
	if d.Level == level {
		return append(to, d)
	}
	for _, child := range d.Children {
		to = domainsOf(child, level, to)
	}
	return to
}

func (v *division) addSegment(s Segment) {
	v.segments = append(v.segments, s)
	if s.Beside >= 0 {
		domain := v.tree.NodeDomain(s.Beside, v.level)
		v.bound[domain] = append(v.bound[domain], s.Count)
		for level := range v.level + 1 {
			v.pinned[v.tree.NodeDomain(s.Beside, level)] += s.Count
		}
		return
	}
	at, known := v.indexOf(s.Count)
	if !known {
		v.sizes, v.counts = slices.Insert(v.sizes, at, s.Count), slices.Insert(v.counts, at, 0)
	}
	v.counts[at]++
}

func (v *division) indexOf(size int) (at int, known bool) {
	return slices.BinarySearchFunc(v.sizes, size, func(a, b int) int { return cmp.Compare(b, a) })
}

// takeSegments assigns to a domain with some room as many of the remaining segments as fit, the largest first. It returns how many of each size.
func (v *division) takeSegments(left []int, room int) (taken []int, rest int) {
	taken = make([]int, len(left))
	for i, size := range v.sizes {
		taken[i] = min(left[i], room/size)
		left[i] -= taken[i]
		room -= taken[i] * size
	}
	return taken, room
}

// packing is how many segments have room, and which domain comes closest to having it for another one.
type packing struct {
	segments int
	near     *topology.Domain
	// most is how many members of the next segment near has room for, out of want.
	most, want int
}

// isAllPacked reports whether all segments have room.
func (v *division) isAllPacked(p packing) bool { return p.segments == len(v.segments) }

// packDomains fills some domains with segments, by sums alone.
func (v *division) packDomains(domains []*topology.Domain, room func(*topology.Domain) int) packing {
	p, left := packing{}, slices.Clone(v.counts)
	for _, domain := range domains {
		rest := room(domain)
		for _, size := range v.bound[domain] {
			if size > rest {
				p.near, p.most, p.want = domain, rest, size
				continue
			}
			p.segments++
			rest -= size
		}
		if domain.Name == "" {
			continue
		}
		var taken []int
		taken, rest = v.takeSegments(left, rest)
		p.segments += sumCounts(taken)
		if p.want == 0 && (p.near == nil || rest > p.most) {
			p.near, p.most = domain, rest
		}
	}
	if i := slices.IndexFunc(left, func(count int) bool { return count > 0 }); i >= 0 && p.want == 0 {
		p.want = v.sizes[i]
	}
	return p
}

func sumCounts(counts []int) (all int) {
	for _, count := range counts {
		all += count
	}
	return all
}

// A table above the level of the segments is indexed by the numbers of segments of the first two sizes, combined into one number. Two such
// numbers can be added up as long as the second size does not exceed its count. indexStride is the stride of the first size.
func (v *division) indexStride() int {
	if len(v.sizes) < 2 {
		return 1
	}
	return 1 + v.counts[1]
}

// lastIndex returns the index of all segments.
func (v *division) lastIndex() int {
	switch len(v.sizes) {
	case 0:
		return 0
	case 1:
		return v.counts[0]
	}
	return v.counts[0]*v.indexStride() + v.counts[1]
}

// countsAt returns how many segments of each size an index stands for, and countMembers how many members these have.
func (v *division) countsAt(index int) []int {
	if len(v.sizes) == 0 {
		return nil
	}
	return []int{index / v.indexStride(), index % v.indexStride()}[:len(v.sizes)]
}

func (v *division) countMembers(index int) (members int) {
	for i, count := range v.countsAt(index) {
		members += count * v.sizes[i]
	}
	return members
}

// placesByRank lists the places of all members by rank, given how many members each node takes, and how many segments of each size a domain takes.
func (v *division) placesByRank(taken func(node int) int, dealt map[*topology.Domain][]int) (places []int) {
	in := map[*topology.Domain][]int{}
	for node := range v.tree.InOrder() {
		domain := v.tree.NodeDomain(node, v.level)
		for range taken(node) {
			in[domain] = append(in[domain], node)
		}
	}
	next, used := make([]int, len(v.sizes)), make([]int, len(v.sizes)) // the domain for the next segment of a size, and how many it has
	for _, segment := range v.segments {
		var domain *topology.Domain
		if segment.Beside >= 0 {
			domain = v.tree.NodeDomain(segment.Beside, v.level)
		} else {
			i, _ := v.indexOf(segment.Count)
			for dealt[v.domains[next[i]]] == nil || dealt[v.domains[next[i]]][i] == used[i] {
				next[i], used[i] = next[i]+1, 0
			}
			domain = v.domains[next[i]]
			used[i]++
		}
		places, in[domain] = append(places, in[domain][:segment.Count]...), in[domain][segment.Count:]
	}
	return places
}

// impossibleWorth is the value of an impossible placement.
const impossibleWorth = -1 << 61

// fillSegments places the members of a role so that each segment lies in one domain.
func (f *roleFilling) fillSegments(d *topology.Domain, counts map[int]int) bool {
	v := f.division
	f.segmentsByDomain = map[*topology.Domain][]int{}
	if len(v.sizes) > 2 || !f.spendSteps(f.countSteps(d)) {
		return f.dealSegments(d, counts)
	}
	t, last := f.bestTable(d), v.lastIndex()
	if last >= len(t.worth) || t.worth[last] < impossibleWorth/2 {
		return false
	}
	t.takeMembers(f, last, counts)
	return true
}

// tableBySegments converts the table of a domain by members to one by segments.
func (f *roleFilling) tableBySegments(d *topology.Domain, inner *worthTable) *worthTable {
	v := f.division
	t := &worthTable{inner: inner, domain: d, worth: make([]int, f.tableSize(d)+1)}
	for index := range t.worth {
		t.worth[index] = impossibleWorth
		if members := v.pinned[d] + v.countMembers(index); members < len(inner.worth) && (index == 0 || d.Name != "") {
			t.worth[index] = inner.worth[members]
		}
	}
	return t
}

// tableSize returns the last index of a domain's table.
func (f *roleFilling) tableSize(d *topology.Domain) int {
	room := f.roomOf(d)
	v := f.division
	switch {
	case v == nil || d.Level > v.level:
		return room
	case len(v.sizes) == 0:
		return 0
	}
	return min(v.lastIndex(), (room/v.sizes[0]+1)*v.indexStride()-1)
}

// tableLimit returns the last index that the tables in a domain need, and their stride.
func (f *roleFilling) tableLimit(d *topology.Domain) (limit, per int) {
	if v := f.division; v != nil && d.Level < v.level {
		return v.lastIndex(), v.indexStride()
	}
	return f.want, 1
}

// membersAt returns how many members an index of a domain's table stands for.
func (f *roleFilling) membersAt(d *topology.Domain, index int) int {
	if v := f.division; v != nil && d.Level < v.level {
		return v.pinned[d] + v.countMembers(index)
	}
	return index
}

// dealSegments places segments if the exact search would take too long: first in the domains that take the most.
func (f *roleFilling) dealSegments(d *topology.Domain, counts map[int]int) bool {
	v := f.division
	left := slices.Clone(v.counts)
	f.dealInDomain(d, left, f.countCapacities(d, map[*topology.Domain]int{}))
	for _, domain := range domainsOf(d, v.level, nil) {
		members := v.pinned[domain]
		for i, count := range f.segmentsByDomain[domain] {
			members += count * v.sizes[i]
		}
		if members > f.roomOf(domain) {
			return false
		}
		f.fillGreedily(domain, members, counts)
	}
	return sumCounts(left) == 0
}

// countCapacities records how many members each domain takes, in whole segments, if no other domain has any.
func (f *roleFilling) countCapacities(d *topology.Domain, to map[*topology.Domain]int) map[*topology.Domain]int {
	if d.Level == f.division.level {
		if room := f.roomOf(d) - f.division.pinned[d]; room > 0 && d.Name != "" {
			_, rest := f.division.takeSegments(slices.Clone(f.division.counts), room)
			to[d] = room - rest
		}
		return to
	}
	for _, child := range d.Children {
		f.countCapacities(child, to)
		to[d] += to[child]
	}
	return to
}

func (f *roleFilling) dealInDomain(d *topology.Domain, left []int, capacity map[*topology.Domain]int) {
	if d.Level == f.division.level {
		if room := f.roomOf(d) - f.division.pinned[d]; room > 0 && d.Name != "" {
			f.segmentsByDomain[d], _ = f.division.takeSegments(left, room)
		}
		return
	}
	children := slices.Clone(d.Children)
	slices.SortStableFunc(children, func(a, b *topology.Domain) int { return cmp.Compare(capacity[b], capacity[a]) })
	for len(children) > 0 && sumCounts(left) > 0 {
		members := 0
		for i, count := range left {
			members += count * f.division.sizes[i]
		}
		// The tightest of the children that take all remaining segments, or else the one that takes the most.
		next, _ := slices.BinarySearchFunc(children, members, func(child *topology.Domain, members int) int {
			if capacity[child] >= members {
				return -1
			}
			return 1
		})
		if next <= 1 {
			f.dealInDomain(children[0], left, capacity)
			children = children[1:]
			continue
		}
		f.dealInDomain(children[next-1], left, capacity)
		children = slices.Delete(children, next-1, next)
	}
}
