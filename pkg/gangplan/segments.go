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

func divide(p *Problem) []*division {
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
		divisions[segment.Role].add(segment)
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

func (v *division) add(s Segment) {
	v.segments = append(v.segments, s)
	if s.Beside >= 0 {
		domain := v.tree.Of(s.Beside, v.level)
		v.bound[domain] = append(v.bound[domain], s.Count)
		for level := range v.level + 1 {
			v.pinned[v.tree.Of(s.Beside, level)] += s.Count
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

// take assigns to a domain with some room as many of the remaining segments as fit, the largest first. It returns how many of each size.
func (v *division) take(left []int, room int) (taken []int, rest int) {
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

// all reports whether all segments have room.
func (v *division) all(p packing) bool { return p.segments == len(v.segments) }

// pack fills some domains with segments, by sums alone.
func (v *division) pack(domains []*topology.Domain, room func(*topology.Domain) int) packing {
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
		taken, rest = v.take(left, rest)
		p.segments += sum(taken)
		if p.want == 0 && (p.near == nil || rest > p.most) {
			p.near, p.most = domain, rest
		}
	}
	if i := slices.IndexFunc(left, func(count int) bool { return count > 0 }); i >= 0 && p.want == 0 {
		p.want = v.sizes[i]
	}
	return p
}

func sum(counts []int) (all int) {
	for _, count := range counts {
		all += count
	}
	return all
}

// A table above the level of the segments is indexed by the numbers of segments of the first two sizes, combined into one number. Two such
// numbers can be added up as long as the second size does not exceed its count. indexStride is the stride of the first size.
func (v *division) per() int {
	if len(v.sizes) < 2 {
		return 1
	}
	return 1 + v.counts[1]
}

// last returns the index of all segments.
func (v *division) last() int {
	switch len(v.sizes) {
	case 0:
		return 0
	case 1:
		return v.counts[0]
	}
	return v.counts[0]*v.per() + v.counts[1]
}

// of returns how many segments of each size an index stands for, and countMembers how many members these have.
func (v *division) of(index int) []int {
	if len(v.sizes) == 0 {
		return nil
	}
	return []int{index / v.per(), index % v.per()}[:len(v.sizes)]
}

func (v *division) members(index int) (members int) {
	for i, count := range v.of(index) {
		members += count * v.sizes[i]
	}
	return members
}

// places lists the places of all members by rank, given how many members each node takes, and how many segments of each size a domain takes.
func (v *division) places(taken func(node int) int, dealt map[*topology.Domain][]int) (places []int) {
	in := map[*topology.Domain][]int{}
	for node := range v.tree.InOrder() {
		domain := v.tree.Of(node, v.level)
		for range taken(node) {
			in[domain] = append(in[domain], node)
		}
	}
	next, used := make([]int, len(v.sizes)), make([]int, len(v.sizes)) // the domain for the next segment of a size, and how many it has
	for _, segment := range v.segments {
		var domain *topology.Domain
		if segment.Beside >= 0 {
			domain = v.tree.Of(segment.Beside, v.level)
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

// impossible is the value of an impossible placement.
const impossible = -1 << 61

// fillSegments places the members of a role so that each segment lies in one domain.
func (f *filling) fillSegments(d *topology.Domain, counts map[int]int) bool {
	v := f.division
	f.dealt = map[*topology.Domain][]int{}
	if len(v.sizes) > 2 || !f.affords(f.steps(d)) {
		return f.deal(d, counts)
	}
	t, last := f.best(d), v.last()
	if last >= len(t.worth) || t.worth[last] < impossible/2 {
		return false
	}
	t.take(f, last, counts)
	return true
}

// bySegments converts the table of a domain by members to one by segments.
func (f *filling) bySegments(d *topology.Domain, inner *table) *table {
	v := f.division
	t := &table{inner: inner, domain: d, worth: make([]int, f.size(d)+1)}
	for index := range t.worth {
		t.worth[index] = impossible
		if members := v.pinned[d] + v.members(index); members < len(inner.worth) && (index == 0 || d.Name != "") {
			t.worth[index] = inner.worth[members]
		}
	}
	return t
}

// size returns the last index of a domain's table.
func (f *filling) size(d *topology.Domain) int {
	room := f.roomOf(d)
	v := f.division
	switch {
	case v == nil || d.Level > v.level:
		return room
	case len(v.sizes) == 0:
		return 0
	}
	return min(v.last(), (room/v.sizes[0]+1)*v.per()-1)
}

// limit returns the last index that the tables in a domain need, and their stride.
func (f *filling) limit(d *topology.Domain) (limit, per int) {
	if v := f.division; v != nil && d.Level < v.level {
		return v.last(), v.per()
	}
	return f.want, 1
}

// membersAt returns how many members an index of a domain's table stands for.
func (f *filling) membersAt(d *topology.Domain, index int) int {
	if v := f.division; v != nil && d.Level < v.level {
		return v.pinned[d] + v.members(index)
	}
	return index
}

// deal places segments if the exact search would take too long: first in the domains that take the most.
func (f *filling) deal(d *topology.Domain, counts map[int]int) bool {
	v := f.division
	left := slices.Clone(v.counts)
	f.dealIn(d, left, f.capacities(d, map[*topology.Domain]int{}))
	for _, domain := range domainsOf(d, v.level, nil) {
		members := v.pinned[domain]
		for i, count := range f.dealt[domain] {
			members += count * v.sizes[i]
		}
		if members > f.roomOf(domain) {
			return false
		}
		f.greedily(domain, members, counts)
	}
	return sum(left) == 0
}

// capacities records how many members each domain takes, in whole segments, if no other domain has any.
func (f *filling) capacities(d *topology.Domain, to map[*topology.Domain]int) map[*topology.Domain]int {
	if d.Level == f.division.level {
		if room := f.roomOf(d) - f.division.pinned[d]; room > 0 && d.Name != "" {
			_, rest := f.division.take(slices.Clone(f.division.counts), room)
			to[d] = room - rest
		}
		return to
	}
	for _, child := range d.Children {
		f.capacities(child, to)
		to[d] += to[child]
	}
	return to
}

func (f *filling) dealIn(d *topology.Domain, left []int, capacity map[*topology.Domain]int) {
	if d.Level == f.division.level {
		if room := f.roomOf(d) - f.division.pinned[d]; room > 0 && d.Name != "" {
			f.dealt[d], _ = f.division.take(left, room)
		}
		return
	}
	children := slices.Clone(d.Children)
	slices.SortStableFunc(children, func(a, b *topology.Domain) int { return cmp.Compare(capacity[b], capacity[a]) })
	for len(children) > 0 && sum(left) > 0 {
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
			f.dealIn(children[0], left, capacity)
			children = children[1:]
			continue
		}
		f.dealIn(children[next-1], left, capacity)
		children = slices.Delete(children, next-1, next)
	}
}
