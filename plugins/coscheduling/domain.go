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

// nodeDomain is the nodes that members may use, as a problem of pkg/gangplan.
type nodeDomain struct {
	infos []fwk.NodeInfo
	// numbers are the positions of infos in the list of all nodes.
	numbers []int
	at      map[string]int // the positions in infos, by node name
	tree    *topology.Tree
	// level is the index of the layout's level.
	level int
	slots []podSlot
	// freeSlots is how many members of each class the nodes take, and emptySlots how many when they are empty, by class and node.
	freeSlots, emptySlots [][]int
	// segments are the parts of a gang that need one domain each, nil if the whole gang does. completeSegments is how many are already placed.
	segments         *gangplan.Segments
	completeSegments int
	clusterSnapshot
	layout
}

// newNodeDomain collects the nodes that have room for some members, or would have when empty.
func newNodeDomain(l layout, seats []podSlot, b clusterSnapshot) *nodeDomain {
	s := gatherNodes(l, seats, b, 0)
	s.tree, s.level = b.tables.treeFor(l, s.infos)
	return s
}

// newPartialDomain collects the first nodes that have room for some members now, up to a number.
func newPartialDomain(most int, seats []podSlot, b clusterSnapshot) *nodeDomain {
	s := gatherNodes(layout{}, seats, b, most)
	var none *capacityTables // what is remembered is of whole pools
	s.tree, s.level = none.treeFor(s.layout, s.infos)
	return s
}

// gatherNodes collects nodes, without their tree: the first ones with room now, or with most = 0 all that have room or would have when empty.
func gatherNodes(l layout, seats []podSlot, b clusterSnapshot, most int) *nodeDomain {
	s := &nodeDomain{slots: seats, clusterSnapshot: b, layout: l, freeSlots: make([][]int, len(seats)), emptySlots: make([][]int, len(seats))}
	tables := make([]*capacityTable, len(seats))
	for role := range seats {
		tables[role] = b.tables.tableFor(seats[role].pod, b.nodes)
	}
	now, then := make([]int, len(seats)), make([]int, len(seats))
	for node, info := range b.nodes {
		if len(b.keptWhole) > 0 && b.keptWhole.Has(info.Node().Name) {
			continue
		}
		some := 0
		for role := range seats {
			now[role], then[role] = tables[role].capacityOn(node, &seats[role], b)
			some += now[role]
			if most == 0 {
				some += then[role]
			}
		}
		if some == 0 {
			continue
		}
		s.allocateNodes(min(len(b.nodes)-node, cmp.Or(most, len(b.nodes))))
		s.infos, s.numbers = append(s.infos, info), append(s.numbers, node)
		for role := range seats {
			limit := maxMembers
			if seats[role].isExclusive {
				limit = 1
			}
			s.freeSlots[role] = append(s.freeSlots[role], min(now[role], limit))
			s.emptySlots[role] = append(s.emptySlots[role], min(then[role], limit))
		}
		if len(s.infos) == most {
			break
		}
	}
	return s
}

// allocateNodes allocates space for so many nodes, unless it has some already.
func (s *nodeDomain) allocateNodes(nodes int) {
	if s.infos != nil {
		return
	}
	s.infos, s.numbers = make([]fwk.NodeInfo, 0, nodes), make([]int, 0, nodes)
	for role := range s.slots {
		s.freeSlots[role], s.emptySlots[role] = make([]int, 0, nodes), make([]int, 0, nodes)
	}
}

// subsetOfNodes returns a subset of the nodes, without segments.
func (s *nodeDomain) subsetOfNodes(nodes []int) *nodeDomain {
	some := &nodeDomain{slots: s.slots, clusterSnapshot: s.clusterSnapshot, layout: s.layout, freeSlots: make([][]int, len(s.slots)), emptySlots: make([][]int, len(s.slots))}
	for _, node := range nodes {
		some.infos, some.numbers = append(some.infos, s.infos[node]), append(some.numbers, s.numbers[node])
		for role := range s.slots {
			some.freeSlots[role], some.emptySlots[role] = append(some.freeSlots[role], s.freeSlots[role][node]), append(some.emptySlots[role], s.emptySlots[role][node])
		}
	}
	var none *capacityTables // what is remembered is of whole pools
	some.tree, some.level = none.treeFor(s.layout, some.infos)
	return some
}

// freeCapacity returns how many members of a class a node takes beside some others, and emptyCapacity how many if there are no other pods.
func (s *nodeDomain) freeCapacity(node, role int, beside []int) int {
	if beside == nil {
		return s.freeSlots[role][node]
	}
	return s.capacityBeside(node, role, beside, nodeChange{})
}

func (s *nodeDomain) emptyCapacity(node, role int, beside []int) int {
	if beside == nil {
		return s.emptySlots[role][node]
	}
	return s.capacityBeside(node, role, beside, nodeChange{empty: true})
}

// newProblem builds the placement problem for so many members of each class, beside the placed ones.
func (s *nodeDomain) newProblem(waiting []podClass, standing []int, room func(node, role int, beside []int) int) gangplan.Problem {
	p := gangplan.Problem{Tree: s.tree, Level: -1, Segments: s.segments, Standing: standing, Steps: s.steps, Room: room}
	if s.required && s.segments == nil {
		p.Level = s.level
	}
	for i := range waiting {
		p.Roles = append(p.Roles, waiting[i].count)
	}
	return p
}

// searchPlan searches for places.
func (s *nodeDomain) searchPlan(into *plan, of pendingMembers, standing []int) string {
	kinds := of.classes
	var free func(node, role int, beside []int) int
	for _, types := range typePreferences(s.slots) {
		free = func(node, role int, beside []int) int {
			if into.excluded.Has(s.infos[node].Node().Name) || types != nil && !types.Has(gpu.TypeOf(s.infos[node].Node())) {
				return 0
			}
			return s.freeCapacity(node, role, beside)
		}
		if found, _ := gangplan.Make(s.newProblem(kinds, standing, free)); found != nil {
			s.fillPlan(into, of, s.sparesReservations(kinds, standing, free, found))
			return ""
		}
	}
	return s.missingReason(kinds, standing, free)
}

// sparesReservations returns a plan that is as close as the found one, and uses nothing that jobs behind the gang in the queue have reserved;
// otherwise the found one.
func (s *nodeDomain) sparesReservations(kinds []podClass, standing []int, free func(node, role int, beside []int) int, found *gangplan.Plan) *gangplan.Plan {
	if !slices.ContainsFunc(s.slots, func(one podSlot) bool { return one.reservedBehind != nil }) {
		return found
	}
	spare, _ := gangplan.Make(s.newProblem(kinds, standing, func(node, role int, beside []int) int {
		return min(free(node, role, beside), s.slots[role].reservedBehind.RoomFor(s.infos[node]))
	}))
	if spare != nil && spare.Crossed <= found.Crossed && spare.Segmented == found.Segmented {
		return spare
	}
	return found
}

// typePreferences returns the sets of GPU types to try, the smallest first: prefixes of the list that all members share. The last is nil, for all
// accepted types.
func typePreferences(seats []podSlot) (tries []sets.Set[string]) {
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

// nodeNumber returns the position of a node, and false for one that no member may use.
func (s *nodeDomain) nodeNumber(node string) (int, bool) {
	if s.at == nil {
		s.at = make(map[string]int, len(s.infos))
		for i, info := range s.infos {
			s.at[info.Node().Name] = i
		}
	}
	number, ok := s.at[node]
	return number, ok
}

// nodeNumbers returns the positions of the known nodes.
func (s *nodeDomain) nodeNumbers(nodes []string) (positions []int) {
	for _, node := range nodes {
		if number, ok := s.nodeNumber(node); ok {
			positions = append(positions, number)
		}
	}
	return positions
}

// capacityBeside returns how many members of a class a node takes beside some others, after a change.
func (s *nodeDomain) capacityBeside(node, role int, beside []int, c nodeChange) int {
	for other, count := range beside {
		if count > 0 {
			c.incoming = append(c.incoming, incomingPods{podSlot: &s.slots[other], count: count})
		}
	}
	return s.slots[role].capacityAfter(&c, s.infos[node], s.clusterSnapshot)
}

func (s *nodeDomain) namesOf(nodes []int) sets.Set[string] {
	names := sets.New[string]()
	for _, node := range nodes {
		names.Insert(s.infos[node].Node().Name)
	}
	return names
}

// missingReason returns how close the members came to a domain that holds all of them.
func (s *nodeDomain) missingReason(waiting []podClass, standing []int, free func(node, role int, beside []int) int) string {
	text, members := reason.GangDomainTooSmall.Text, len(standing)
	near := gangplan.Nearest(s.newProblem(waiting, standing, s.emptyCapacity))
	could := near.Could
	if could {
		text, near = reason.GangDomainFull.Text, gangplan.Nearest(s.newProblem(waiting, standing, free))
	}
	for i := range waiting {
		members += waiting[i].count
	}
	level := s.tree.Levels[s.level]
	switch {
	case near.Domain == nil:
		return reason.GangUnlabelled.Text.FormatText(level.Key, level.Name)
	case s.segments != nil && near.Want > 0:
		text = reason.GangSegmentsTooLarge.Text
		if could {
			text = reason.GangSegmentsFull.Text
		}
		return text.FormatText(fmt.Sprintf("%d of %d", near.Segments+s.completeSegments, len(s.segments.All)+s.completeSegments), level.Name,
			fmt.Sprintf("%d of %d in %s", near.Room, near.Want, near.Domain.Name))
	}
	return text.FormatText(level.Name, members, fmt.Sprintf("%d in %s", near.Room+len(standing), near.Domain.Name))
}
