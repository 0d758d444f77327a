package coscheduling

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// site is the nodes that members may use, as a problem of pkg/gangplan.
type site struct {
	infos []fwk.NodeInfo
	// numbers are the positions of infos in the list of all nodes.
	numbers []int
	at      map[string]int // the positions in infos, by node name
	tree    *topology.Tree
	// level is the index of the layout's level.
	level int
	seats []seat
	// now is how many members of each class the nodes take, and emptySlots how many when they are empty, by class and node.
	now, then [][]int
	// segments are the parts of a gang that need one domain each, nil if the whole gang does. completeSegments is how many are already placed.
	segments *gangplan.Segments
	complete int
	bearing
	layout
}

// siteOf collects the nodes that have room for some members, or would have when empty.
func siteOf(l layout, seats []seat, b bearing) *site {
	s := gatherSite(l, seats, b, 0)
	s.tree, s.level = b.tables.treeOf(l, s.infos)
	return s
}

// siteOfFirst collects the first nodes that have room for some members now, up to a number.
func siteOfFirst(most int, seats []seat, b bearing) *site {
	s := gatherSite(layout{}, seats, b, most)
	var none *tables // what is remembered is of whole pools
	s.tree, s.level = none.treeOf(s.layout, s.infos)
	return s
}

// gatherSite collects nodes, without their tree: the first ones with room now, or with most = 0 all that have room or would have when empty.
func gatherSite(l layout, seats []seat, b bearing, most int) *site {
	s := &site{seats: seats, bearing: b, layout: l, now: make([][]int, len(seats)), then: make([][]int, len(seats))}
	tables := make([]*table, len(seats))
	for role := range seats {
		tables[role] = b.tables.like(seats[role].pod, b.nodes)
	}
	now, then := make([]int, len(seats)), make([]int, len(seats))
	for node, info := range b.nodes {
		if len(b.whole) > 0 && b.whole.Has(info.Node().Name) {
			continue
		}
		some := 0
		for role := range seats {
			now[role], then[role] = tables[role].room(node, &seats[role], b)
			some += now[role]
			if most == 0 {
				some += then[role]
			}
		}
		if some == 0 {
			continue
		}
		s.grow(min(len(b.nodes)-node, cmp.Or(most, len(b.nodes))))
		s.infos, s.numbers = append(s.infos, info), append(s.numbers, node)
		for role := range seats {
			limit := maxMembers
			if seats[role].alone {
				limit = 1
			}
			s.now[role] = append(s.now[role], min(now[role], limit))
			s.then[role] = append(s.then[role], min(then[role], limit))
		}
		if len(s.infos) == most {
			break
		}
	}
	return s
}

// grow allocates space for so many nodes, unless it has some already.
func (s *site) grow(nodes int) {
	if s.infos != nil {
		return
	}
	s.infos, s.numbers = make([]fwk.NodeInfo, 0, nodes), make([]int, 0, nodes)
	for role := range s.seats {
		s.now[role], s.then[role] = make([]int, 0, nodes), make([]int, 0, nodes)
	}
}

// part returns a subset of the nodes, without segments.
func (s *site) part(nodes []int) *site {
	some := &site{seats: s.seats, bearing: s.bearing, layout: s.layout, now: make([][]int, len(s.seats)), then: make([][]int, len(s.seats))}
	for _, node := range nodes {
		some.infos, some.numbers = append(some.infos, s.infos[node]), append(some.numbers, s.numbers[node])
		for role := range s.seats {
			some.now[role], some.then[role] = append(some.now[role], s.now[role][node]), append(some.then[role], s.then[role][node])
		}
	}
	var none *tables // what is remembered is of whole pools
	some.tree, some.level = none.treeOf(s.layout, some.infos)
	return some
}

// free returns how many members of a class a node takes beside some others, and emptyCapacity how many if there are no other pods.
func (s *site) free(node, role int, beside []int) int {
	if beside == nil {
		return s.now[role][node]
	}
	return s.room(node, role, beside, change{})
}

func (s *site) empty(node, role int, beside []int) int {
	if beside == nil {
		return s.then[role][node]
	}
	return s.room(node, role, beside, change{empty: true})
}

// problem builds the placement problem for so many members of each class, beside the placed ones.
func (s *site) problem(waiting []kind, standing []int, room func(node, role int, beside []int) int) gangplan.Problem {
	p := gangplan.Problem{Tree: s.tree, Level: -1, Segments: s.segments, Standing: standing, Steps: s.steps, Room: room}
	if s.required && s.segments == nil {
		p.Level = s.level
	}
	for i := range waiting {
		p.Roles = append(p.Roles, waiting[i].count)
	}
	return p
}

// search searches for places.
func (s *site) search(into *plan, of party, standing []int) string {
	kinds := of.kinds
	var free func(node, role int, beside []int) int
	for _, types := range preferences(s.seats) {
		free = func(node, role int, beside []int) int {
			if into.shunned.Has(s.infos[node].Node().Name) || types != nil && !types.Has(gpu.TypeOf(s.infos[node].Node())) {
				return 0
			}
			return s.free(node, role, beside)
		}
		if found, _ := gangplan.Make(s.problem(kinds, standing, free)); found != nil {
			s.enter(into, of, s.sparing(kinds, standing, free, found))
			return ""
		}
	}
	return s.missing(kinds, standing, free)
}

// sparing returns a plan that is as close as the found one, and uses nothing that jobs behind the gang in the queue have reserved;
// otherwise the found one.
func (s *site) sparing(kinds []kind, standing []int, free func(node, role int, beside []int) int, found *gangplan.Plan) *gangplan.Plan {
	if !slices.ContainsFunc(s.seats, func(one seat) bool { return one.behind != nil }) {
		return found
	}
	spare, _ := gangplan.Make(s.problem(kinds, standing, func(node, role int, beside []int) int {
		return min(free(node, role, beside), s.seats[role].behind.Room(s.infos[node]))
	}))
	if spare != nil && spare.Crossed <= found.Crossed && spare.Segmented == found.Segmented {
		return spare
	}
	return found
}

// preferences returns the sets of GPU types to try, the smallest first: prefixes of the list that all members share. The last is nil, for all
// accepted types.
func preferences(seats []seat) (tries []sets.Set[string]) {
	list := seats[0].types.Accepted
	for i := range seats {
		if !slices.Equal(seats[i].types.Accepted, list) {
			return []sets.Set[string]{nil}
		}
	}
	for i := 1; i < len(list); i++ {
		tries = append(tries, sets.New(list[:i]...))
	}
	return append(tries, nil)
}

// number returns the position of a node, and false for one that no member may use.
func (s *site) number(node string) (int, bool) {
	if s.at == nil {
		s.at = make(map[string]int, len(s.infos))
		for i, info := range s.infos {
			s.at[info.Node().Name] = i
		}
	}
	number, ok := s.at[node]
	return number, ok
}

// positions returns the positions of the known nodes.
func (s *site) positions(nodes []string) (positions []int) {
	for _, node := range nodes {
		if number, ok := s.number(node); ok {
			positions = append(positions, number)
		}
	}
	return positions
}

// room returns how many members of a class a node takes beside some others, after a change.
func (s *site) room(node, role int, beside []int, c change) int {
	for other, count := range beside {
		if count > 0 {
			c.come = append(c.come, guests{seat: &s.seats[other], count: count})
		}
	}
	return s.seats[role].beside(&c, s.infos[node], s.bearing)
}

func (s *site) names(nodes []int) sets.Set[string] {
	names := sets.New[string]()
	for _, node := range nodes {
		names.Insert(s.infos[node].Node().Name)
	}
	return names
}

// missing returns how close the members came to a domain that holds all of them.
func (s *site) missing(waiting []kind, standing []int, free func(node, role int, beside []int) int) string {
	text, members := reason.GangDomainTooSmall.Text, len(standing)
	near := gangplan.Nearest(s.problem(waiting, standing, s.empty))
	could := near.Could
	if could {
		text, near = reason.GangDomainFull.Text, gangplan.Nearest(s.problem(waiting, standing, free))
	}
	for i := range waiting {
		members += waiting[i].count
	}
	level := s.tree.Levels[s.level]
	switch {
	case near.Domain == nil:
		return reason.GangUnlabelled.Text.Of(level.Key, level.Name)
	case s.segments != nil && near.Want > 0:
		text = reason.GangSegmentsTooLarge.Text
		if could {
			text = reason.GangSegmentsFull.Text
		}
		return text.Of(fmt.Sprintf("%d of %d", near.Segments+s.complete, len(s.segments.All)+s.complete), level.Name,
			fmt.Sprintf("%d of %d in %s", near.Room, near.Want, near.Domain.Name))
	}
	return text.Of(level.Name, members, fmt.Sprintf("%d in %s", near.Room+len(standing), near.Domain.Name))
}
