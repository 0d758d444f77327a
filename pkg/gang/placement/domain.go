package placement

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

// NodeDomain is the nodes that members may use, as a problem of pkg/gangplan.
type NodeDomain struct {
	Infos []fwk.NodeInfo
	// Numbers are the positions of infos in the list of all nodes.
	Numbers []int
	at      map[string]int // the positions in infos, by node name
	Tree    *topology.Tree
	// Level is the index of the layout's level.
	Level int
	Slots []PodSlot
	// FreeSlots is how many members of each class the nodes take, and EmptySlots how many when they are empty, by class and node.
	FreeSlots, EmptySlots [][]int
	// Segments are the parts of a gang that need one domain each, nil if the whole gang does. completeSegments is how many are already placed.
	Segments         *gangplan.Segments
	completeSegments int
	ClusterSnapshot
	Layout
}

// NewNodeDomain collects the nodes that have room for some members, or would have when empty.
func NewNodeDomain(l Layout, seats []PodSlot, b ClusterSnapshot) *NodeDomain {
	s := gatherNodes(l, seats, b, 0)
	s.Tree, s.Level = b.Tables.TreeFor(l, s.Infos)
	return s
}

// newPartialDomain collects the first nodes that have room for some members now, up to a number.
func newPartialDomain(most int, seats []PodSlot, b ClusterSnapshot) *NodeDomain {
	s := gatherNodes(Layout{}, seats, b, most)
	var none *CapacityTables // what is remembered is of whole pools
	s.Tree, s.Level = none.TreeFor(s.Layout, s.Infos)
	return s
}

// gatherNodes collects nodes, without their tree: the first ones with room now, or with most = 0 all that have room or would have when empty.
func gatherNodes(l Layout, seats []PodSlot, b ClusterSnapshot, most int) *NodeDomain {
	s := &NodeDomain{Slots: seats, ClusterSnapshot: b, Layout: l, FreeSlots: make([][]int, len(seats)), EmptySlots: make([][]int, len(seats))}
	tables := make([]*capacityTable, len(seats))
	for role := range seats {
		tables[role] = b.Tables.TableFor(seats[role].pod, b.Nodes)
	}
	now, then := make([]int, len(seats)), make([]int, len(seats))
	for node, info := range b.Nodes {
		if len(b.KeptWhole) > 0 && b.KeptWhole.Has(info.Node().Name) {
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
		s.allocateNodes(min(len(b.Nodes)-node, cmp.Or(most, len(b.Nodes))))
		s.Infos, s.Numbers = append(s.Infos, info), append(s.Numbers, node)
		for role := range seats {
			limit := MaxMembers
			if seats[role].isExclusive {
				limit = 1
			}
			s.FreeSlots[role] = append(s.FreeSlots[role], min(now[role], limit))
			s.EmptySlots[role] = append(s.EmptySlots[role], min(then[role], limit))
		}
		if len(s.Infos) == most {
			break
		}
	}
	return s
}

// allocateNodes allocates space for so many nodes, unless it has some already.
func (s *NodeDomain) allocateNodes(nodes int) {
	if s.Infos != nil {
		return
	}
	s.Infos, s.Numbers = make([]fwk.NodeInfo, 0, nodes), make([]int, 0, nodes)
	for role := range s.Slots {
		s.FreeSlots[role], s.EmptySlots[role] = make([]int, 0, nodes), make([]int, 0, nodes)
	}
}

// SubsetOfNodes returns a subset of the nodes, without segments.
func (s *NodeDomain) SubsetOfNodes(nodes []int) *NodeDomain {
	some := &NodeDomain{Slots: s.Slots, ClusterSnapshot: s.ClusterSnapshot, Layout: s.Layout, FreeSlots: make([][]int, len(s.Slots)), EmptySlots: make([][]int, len(s.Slots))}
	for _, node := range nodes {
		some.Infos, some.Numbers = append(some.Infos, s.Infos[node]), append(some.Numbers, s.Numbers[node])
		for role := range s.Slots {
			some.FreeSlots[role], some.EmptySlots[role] = append(some.FreeSlots[role], s.FreeSlots[role][node]), append(some.EmptySlots[role], s.EmptySlots[role][node])
		}
	}
	var none *CapacityTables // what is remembered is of whole pools
	some.Tree, some.Level = none.TreeFor(s.Layout, some.Infos)
	return some
}

// FreeCapacity returns how many members of a class a node takes beside some others, and emptyCapacity how many if there are no other pods.
func (s *NodeDomain) FreeCapacity(node, role int, beside []int) int {
	if beside == nil {
		return s.FreeSlots[role][node]
	}
	return s.CapacityBeside(node, role, beside, NodeChange{})
}

func (s *NodeDomain) emptyCapacity(node, role int, beside []int) int {
	if beside == nil {
		return s.EmptySlots[role][node]
	}
	return s.CapacityBeside(node, role, beside, NodeChange{empty: true})
}

// NewProblem builds the placement problem for so many members of each class, beside the placed ones.
func (s *NodeDomain) NewProblem(waiting []PodClass, standing []int, room func(node, role int, beside []int) int) gangplan.Problem {
	p := gangplan.Problem{Tree: s.Tree, Level: -1, Segments: s.Segments, Standing: standing, Steps: s.Steps, Room: room}
	if s.Required && s.Segments == nil {
		p.Level = s.Level
	}
	for i := range waiting {
		p.Roles = append(p.Roles, waiting[i].Count)
	}
	return p
}

// SearchPlan searches for places.
func (s *NodeDomain) SearchPlan(into *Plan, of PendingMembers, standing []int) string {
	kinds := of.Classes
	var free func(node, role int, beside []int) int
	for _, types := range typePreferences(s.Slots) {
		free = func(node, role int, beside []int) int {
			if into.Excluded.Has(s.Infos[node].Node().Name) || types != nil && !types.Has(gpu.TypeOf(s.Infos[node].Node())) {
				return 0
			}
			return s.FreeCapacity(node, role, beside)
		}
		if found, _ := gangplan.Make(s.NewProblem(kinds, standing, free)); found != nil {
			s.fillPlan(into, of, s.sparesReservations(kinds, standing, free, found))
			return ""
		}
	}
	return s.MissingReason(kinds, standing, free)
}

// sparesReservations returns a plan that is as close as the found one, and uses nothing that jobs behind the gang in the queue have reserved;
// otherwise the found one.
func (s *NodeDomain) sparesReservations(kinds []PodClass, standing []int, free func(node, role int, beside []int) int, found *gangplan.Plan) *gangplan.Plan {
	if !slices.ContainsFunc(s.Slots, func(one PodSlot) bool { return one.reservedBehind != nil }) {
		return found
	}
	spare, _ := gangplan.Make(s.NewProblem(kinds, standing, func(node, role int, beside []int) int {
		return min(free(node, role, beside), s.Slots[role].reservedBehind.RoomFor(s.Infos[node]))
	}))
	if spare != nil && spare.Crossed <= found.Crossed && spare.Segmented == found.Segmented {
		return spare
	}
	return found
}

// typePreferences returns the sets of GPU types to try, the smallest first: prefixes of the list that all members share. The last is nil, for all
// accepted types.
func typePreferences(seats []PodSlot) (tries []sets.Set[string]) {
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

// NodeNumber returns the position of a node, and false for one that no member may use.
func (s *NodeDomain) NodeNumber(node string) (int, bool) {
	if s.at == nil {
		s.at = make(map[string]int, len(s.Infos))
		for i, info := range s.Infos {
			s.at[info.Node().Name] = i
		}
	}
	number, ok := s.at[node]
	return number, ok
}

// NodeNumbers returns the positions of the known nodes.
func (s *NodeDomain) NodeNumbers(nodes []string) (positions []int) {
	for _, node := range nodes {
		if number, ok := s.NodeNumber(node); ok {
			positions = append(positions, number)
		}
	}
	return positions
}

// CapacityBeside returns how many members of a class a node takes beside some others, after a change.
func (s *NodeDomain) CapacityBeside(node, role int, beside []int, c NodeChange) int {
	for other, count := range beside {
		if count > 0 {
			c.incoming = append(c.incoming, incomingPods{PodSlot: &s.Slots[other], count: count})
		}
	}
	return s.Slots[role].CapacityAfter(&c, s.Infos[node], s.ClusterSnapshot)
}

// NamesOf returns the names of some nodes.
func (s *NodeDomain) NamesOf(nodes []int) sets.Set[string] {
	names := sets.New[string]()
	for _, node := range nodes {
		names.Insert(s.Infos[node].Node().Name)
	}
	return names
}

// MissingReason returns how close the members came to a domain that holds all of them.
func (s *NodeDomain) MissingReason(waiting []PodClass, standing []int, free func(node, role int, beside []int) int) string {
	text, members := reason.GangDomainTooSmall.Text, len(standing)
	near := gangplan.Nearest(s.NewProblem(waiting, standing, s.emptyCapacity))
	could := near.Could
	if could {
		text, near = reason.GangDomainFull.Text, gangplan.Nearest(s.NewProblem(waiting, standing, free))
	}
	for i := range waiting {
		members += waiting[i].Count
	}
	level := s.Tree.Levels[s.Level]
	switch {
	case near.Domain == nil:
		return reason.GangUnlabelled.Text.FormatText(level.Key, level.Name)
	case s.Segments != nil && near.Want > 0:
		text = reason.GangSegmentsTooLarge.Text
		if could {
			text = reason.GangSegmentsFull.Text
		}
		return text.FormatText(fmt.Sprintf("%d of %d", near.Segments+s.completeSegments, len(s.Segments.All)+s.completeSegments), level.Name,
			fmt.Sprintf("%d of %d in %s", near.Room, near.Want, near.Domain.Name))
	}
	return text.FormatText(level.Name, members, fmt.Sprintf("%d in %s", near.Room+len(standing), near.Domain.Name))
}
