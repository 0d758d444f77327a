package placement

import (
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// LackOfRoom returns why there is no room for all members, "" if there may be some. It also returns "" if the members are of too many classes,
// which would have to be planned one by one.
func (b ClusterSnapshot) LackOfRoom(of Needs, m *Members) string {
	waiting := NewPodClasses(m.Waiting)
	var seats []PodSlot
	unread := error(nil)
	if !waiting.Varied {
		seats, unread = b.SlotsFor(waiting.Classes)
	}
	if name := LackingResource(of.MinResources, m.Placed, seats, b.Nodes); name != "" {
		return reason.GangLacksResource.Text.FormatText(name)
	}
	if waiting.Varied || unread != nil { // GPUFilter reports what is wrong with the pod
		return ""
	}
	why := b.CapacityFor(waiting.Classes, seats, len(m.Placed)).RefusalReason(of.MinMember)
	if why != "" || len(waiting.Classes) == 1 {
		return why
	}
	return b.lackOfRoomTogether(of, m, waiting.Classes, seats)
}

// firstNodes are the numbers of nodes with room on which members of several classes are tried together before all nodes are. Usually they fit
// there, and counting the room of thousands of nodes for pods that differ from all earlier ones takes longer than placing them.
var firstNodes = [...]int{64, 1024}

// lackOfRoomTogether returns why there is no room for members of several classes, each of which has room on its own.
func (b ClusterSnapshot) lackOfRoomTogether(of Needs, m *Members, waiting []PodClass, seats []PodSlot) string {
	want := of.MinMember - len(m.Placed)
	count := func(s *NodeDomain, room func(node, role int, beside []int) int) int {
		together := gangplan.CountPlaceable(s.NewProblem(waiting, nil, room))
		if together < want && want < len(m.Waiting) {
			together = max(together, gangplan.CountPlaceable(s.NewProblem(countClassesAmong(waiting, NeededMembers(of, m)), nil, room)))
		}
		return together
	}
	first := b
	first.Steps = nil // what must be searched for is searched on all
	for _, most := range firstNodes {
		if most >= len(b.Nodes) {
			break
		}
		if s := newPartialDomain(most, seats, first); count(s, s.FreeCapacity) >= want {
			return ""
		}
	}
	s := NewNodeDomain(Layout{}, seats, b)
	free := count(s, s.FreeCapacity)
	if free >= want {
		return ""
	}
	return GangCapacity{placed: len(m.Placed), Free: free, Empty: count(s, s.emptyCapacity)}.RefusalReason(of.MinMember)
}
