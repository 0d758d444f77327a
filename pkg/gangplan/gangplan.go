// Package gangplan finds places for all members of a gang at once, close together in the topology of the cluster. It is pure: its input is the
// location of nodes and how many members of each role a node takes, without pods or resources. So the scheduler, a simulation and tools that
// explain either can use it.
//
// Members are close if few levels of the topology lie between them. Among all placements it selects the one with the fewest levels between the
// pairs of members, and among equals the one that leaves the least room beside them in the domains that they use, so that large rooms stay whole
// for others. For members of one role that is exact up to a budget of steps; roles are placed one after the other, in two orders.
//
// A gang can be divided into segments that each lie in one domain, while the whole gang may lie in several. Here too it selects the closest
// placement, if segments of one role have at most two sizes: the last may be smaller.
package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// Problem is a gang that needs places, and where they may be.
type Problem struct {
	Tree *topology.Tree
	// Roles are how many members of each role need a place. Members of a role are alike.
	Roles []int
	// Room returns how many members of a role a node takes beside some others, which are given by role; nil for none.
	Room func(node, role int, beside []int) int
	// Level is the level of the tree at which one domain has to hold all members, -1 for none.
	Level int
	// Segments are groups of members that need one domain each, if the whole gang does not. nil for none.
	Segments *Segments
	// Standing are the nodes of members that are already placed.
	Standing []int
	// Steps is how many steps the exact search may still take. The search subtracts what it uses, so the plans of one attempt can share it. When
	// the steps are used up, the largest domains are filled first. nil for none.
	Steps *int
}

// DefaultBudget is a number of steps that take some 50 ms.
const DefaultBudget = 20_000_000

// Plan is a place for each member.
type Plan struct {
	// Places are the nodes of the members of each role, in topology order: neighbors in the list are neighbors in the cluster. With segments
	// they are in segment order, and in topology order within each segment.
	Places [][]int
	// Segmented says that each segment lies in one domain.
	Segmented bool
	// Domain is the innermost domain that holds all of the gang.
	Domain *topology.Domain
	// Crossed is how many levels of the topology lie between its members, summed over pairs.
	Crossed int
}

// Miss is how close a gang came to a plan.
type Miss struct {
	// Could says that a domain has room for all members of each role, as long as it takes no other roles.
	Could bool
	// Domain is the one with room for the most members, nil if there is none of the level.
	Domain *topology.Domain
	// Room is how many members that domain has room for, counted role by role.
	Room int
	// Segments is how many segments have room, for a gang without a plan. Domain and Room then refer to the next segment, and Want is its number
	// of members.
	Segments, Want int
}

// Make returns a plan, or how close it came.
func Make(p Problem) (*Plan, Miss) {
	plan, miss := findPlan(p)
	if plan == nil && p.Segments != nil && p.Segments.Preferred {
		p.Segments = nil
		return findPlan(p)
	}
	return plan, miss
}

// findPlan does what Make does for a gang whose segments are required.
func findPlan(p Problem) (*Plan, Miss) {
	s := newSearch(&p)
	for _, tier := range s.domainTiers() {
		best := (*trial)(nil)
		for _, domain := range tier {
			if !s.couldHold(domain) {
				continue
			}
			if t := s.tryDomain(domain); t != nil && (best == nil || t.isBetter(best)) {
				best = t
			}
		}
		if best != nil {
			return best.newPlan(s), Miss{}
		}
	}
	return nil, s.nearestMiss()
}

// Nearest returns how close a gang comes to a plan, by sums alone.
func Nearest(p Problem) Miss { return newSearch(&p).nearestMiss() }

// search is one call of Make.
type search struct {
	*Problem
	// free is how many members of a role each node takes without other roles, by role and node.
	free [][]int
	// divisions are the segments of each role, nil for none.
	divisions []*division
}

func newSearch(p *Problem) *search {
	s := &search{Problem: p, free: make([][]int, len(p.Roles)), divisions: divideSegments(p)}
	for role := range p.Roles {
		s.free[role] = make([]int, p.countNodes())
		for _, node := range p.Tree.Root.Nodes {
			s.free[role][node] = p.Room(node, role, nil)
		}
	}
	return s
}

func (p *Problem) countNodes() int { return len(p.Tree.Root.Nodes) }

// domainTiers returns the domains to try. All domains of the first tier that can hold the gang are compared; later tiers are only tried if it has
// none. Members of one role find the closest places among all nodes. With several roles the first role would take those regardless of the
// others, so domains are tried from the innermost on.
func (s *search) domainTiers() [][]*topology.Domain {
	if s.Level >= 0 {
		domains := s.Tree.DomainsAt(s.Level)
		if len(s.Standing) > 0 {
			domains = slices.DeleteFunc(domains, func(d *topology.Domain) bool { return d != s.Tree.NodeDomain(s.Standing[0], s.Level) })
		}
		return [][]*topology.Domain{domains}
	}
	var tiers [][]*topology.Domain
	if len(s.Roles) > 1 {
		innermost := len(s.Tree.Levels) - 1
		if s.Segments != nil {
			innermost = s.Segments.Level
		}
		for level := innermost; level >= 0; level-- {
			tiers = append(tiers, s.Tree.DomainsAt(level))
		}
	}
	return append(tiers, []*topology.Domain{s.Tree.Root})
}

// couldHold reports whether a domain has room for all members of each role without other roles: a sum, before any search.
func (s *search) couldHold(d *topology.Domain) bool {
	for role, count := range s.Roles {
		if s.roomIn(d, role, count) < count {
			return false
		}
		if s.divisions != nil && !s.divisions[role].isAllPacked(s.packSegments(d, role)) {
			return false
		}
	}
	return true
}

// packSegments fills the subdomains of a domain with the segments of a role.
func (s *search) packSegments(d *topology.Domain, role int) packing {
	v := s.divisions[role]
	return v.packDomains(domainsOf(d, v.level, nil), func(d *topology.Domain) int { return s.roomIn(d, role, s.Roles[role]) })
}

// roomIn returns how many members of a role a domain takes, up to a limit.
func (s *search) roomIn(d *topology.Domain, role, limit int) int {
	room := 0
	for _, node := range d.Nodes {
		if room += s.free[role][node]; room >= limit {
			return limit
		}
	}
	return room
}

// nearestMiss returns the domain with room for the most members, or for the most of the next segment.
func (s *search) nearestMiss() Miss {
	if s.Segments != nil {
		return s.nearestSegmentMiss()
	}
	domains := []*topology.Domain{s.Tree.Root}
	if s.Level >= 0 {
		domains = s.domainTiers()[0]
	}
	miss := Miss{Room: -1}
	for _, domain := range domains {
		miss.Could = miss.Could || s.couldHold(domain)
		room := 0
		for role, count := range s.Roles {
			room += s.roomIn(domain, role, count)
		}
		if room > miss.Room {
			miss.Domain, miss.Room = domain, room
		}
	}
	miss.Room = max(miss.Room, 0)
	return miss
}

// nearestSegmentMiss counts the segments that have room, role by role. If roles have room separately but not together, it is the last segment that
// has none.
func (s *search) nearestSegmentMiss() Miss {
	miss, last := Miss{Could: s.couldHold(s.Tree.Root)}, packing{}
	for role, v := range s.divisions {
		p := s.packSegments(s.Tree.Root, role)
		miss.Segments += p.segments
		if !v.isAllPacked(p) && miss.Want == 0 {
			miss.Domain, miss.Room, miss.Want = p.near, min(p.most, p.want), p.want
		}
		if len(v.segments) > 0 {
			last = p
		}
	}
	if all := s.Segments.All; miss.Want == 0 && len(all) > 0 {
		want := all[len(all)-1].Count
		miss.Segments, miss.Domain, miss.Room, miss.Want = miss.Segments-1, last.near, min(last.most, want-1), want
	}
	return miss
}

// trial is a placement of all members in one domain.
type trial struct {
	// taken is how many members of each role a node takes, by node and role.
	taken map[int][]int
	// crossed is how many levels lie between the members, and spare how many more members the domain would take.
	crossed, spare int
	// segmentsByDomain is how many segments of each size a domain takes, by role.
	segmentsByDomain []map[*topology.Domain][]int
}

func (t *trial) isBetter(other *trial) bool {
	return cmp.Or(cmp.Compare(t.crossed, other.crossed), cmp.Compare(t.spare, other.spare)) < 0
}

// tryDomain places all members in a domain: the role with the least room first, and if that fails the one with the most.
func (s *search) tryDomain(d *topology.Domain) *trial {
	order := make([]int, len(s.Roles))
	room := make([]int, len(s.Roles))
	for role := range order {
		order[role] = role
		for _, node := range d.Nodes {
			room[role] += s.free[role][node]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(room[a]-s.Roles[a], room[b]-s.Roles[b]) })
	t := s.placeInOrder(d, order)
	if t == nil && len(order) > 1 {
		slices.Reverse(order)
		t = s.placeInOrder(d, order)
	}
	if t == nil && len(order) > 1 && s.Segments == nil {
		t = s.placeJointly(d)
	}
	if t != nil {
		t.crossed = s.countCrossed(t.taken)
		for role, count := range s.Roles {
			t.spare += room[role] - count
		}
	}
	return t
}

// placeInOrder places one role after the other.
func (s *search) placeInOrder(d *topology.Domain, order []int) *trial {
	t := &trial{taken: map[int][]int{}, segmentsByDomain: make([]map[*topology.Domain][]int, len(s.Roles))}
	standing := slices.Clone(s.Standing)
	for i, role := range order {
		f := &roleFilling{search: s, room: s.free[role], want: s.Roles[role]}
		if s.divisions != nil {
			f.division = s.divisions[role]
		}
		if i > 0 {
			f.room = make([]int, s.countNodes())
			for _, node := range d.Nodes {
				f.room[node] = s.Room(node, role, t.taken[node])
			}
		}
		f.recordStanding(standing)
		counts, ok := f.fillDomain(d)
		if !ok {
			return nil
		}
		t.segmentsByDomain[role] = f.segmentsByDomain
		for node, count := range counts {
			if t.taken[node] == nil {
				t.taken[node] = make([]int, len(s.Roles))
			}
			t.taken[node][role] += count
			for range count {
				standing = append(standing, node)
			}
		}
	}
	return t
}

// countCrossed returns how many levels lie between the members, including those already placed: for each level, the ordered pairs that are in
// different domains of it.
func (s *search) countCrossed(taken map[int][]int) int {
	byNode := map[int]int{}
	for node, roles := range taken {
		for _, count := range roles {
			byNode[node] += count
		}
	}
	for _, node := range s.Standing {
		byNode[node]++
	}
	all, together := 0, 0
	for _, count := range byNode {
		all += count
		together += count * count
	}
	for level := range s.Tree.Levels {
		inDomain := map[*topology.Domain]int{}
		for node, count := range byNode {
			inDomain[s.Tree.NodeDomain(node, level)] += count
		}
		for _, count := range inDomain {
			together += count * count
		}
	}
	return (len(s.Tree.Levels)+1)*all*all - together
}

// newPlan lists the places in the order of the topology.
func (t *trial) newPlan(s *search) *Plan {
	plan := &Plan{Places: make([][]int, len(s.Roles)), Crossed: t.crossed, Segmented: s.Segments != nil}
	all := slices.Clone(s.Standing)
	for node := range s.Tree.InOrder() {
		for role := range t.taken[node] {
			for range t.taken[node][role] {
				plan.Places[role] = append(plan.Places[role], node)
				all = append(all, node)
			}
		}
	}
	plan.Domain = s.Tree.CommonDomain(all)
	for role, v := range s.divisions {
		plan.Places[role] = v.placesByRank(func(node int) int { return t.membersOn(node, role) }, t.segmentsByDomain[role])
	}
	return plan
}

// membersOn is how many members of a role a node takes.
func (t *trial) membersOn(node, role int) int {
	if roles := t.taken[node]; roles != nil {
		return roles[role]
	}
	return 0
}
