package coscheduling

import (
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// lackOfRoom returns why there is no room for all members, "" if there may be some. It also returns "" if the members are of too many classes,
// which would have to be planned one by one.
func (b clusterSnapshot) lackOfRoom(of needs, m *members) string {
	waiting := newPodClasses(m.waiting)
	var seats []podSlot
	unread := error(nil)
	if !waiting.varied {
		seats, unread = b.slotsFor(waiting.classes)
	}
	if name := lackingResource(of.minResources, m.placed, seats, b.nodes); name != "" {
		return reason.GangLacksResource.Text.FormatText(name)
	}
	if waiting.varied || unread != nil { // GPUFilter reports what is wrong with the pod
		return ""
	}
	why := b.capacityFor(waiting.classes, seats, len(m.placed)).refusalReason(of.minMember)
	if why != "" || len(waiting.classes) == 1 {
		return why
	}
	return b.lackOfRoomTogether(of, m, waiting.classes, seats)
}

// firstNodes are the numbers of nodes with room on which members of several classes are tried together before all nodes are. Usually they fit
// there, and counting the room of thousands of nodes for pods that differ from all earlier ones takes longer than placing them.
var firstNodes = [...]int{64, 1024}

// lackOfRoomTogether returns why there is no room for members of several classes, each of which has room on its own.
func (b clusterSnapshot) lackOfRoomTogether(of needs, m *members, waiting []podClass, seats []podSlot) string {
	want := of.minMember - len(m.placed)
	count := func(s *nodeDomain, room func(node, role int, beside []int) int) int {
		together := gangplan.CountPlaceable(s.newProblem(waiting, nil, room))
		if together < want && want < len(m.waiting) {
			together = max(together, gangplan.CountPlaceable(s.newProblem(countClassesAmong(waiting, neededMembers(of, m)), nil, room)))
		}
		return together
	}
	first := b
	first.steps = nil // what must be searched for is searched on all
	for _, most := range firstNodes {
		if most >= len(b.nodes) {
			break
		}
		if s := newPartialDomain(most, seats, first); count(s, s.freeCapacity) >= want {
			return ""
		}
	}
	s := newNodeDomain(layout{}, seats, b)
	free := count(s, s.freeCapacity)
	if free >= want {
		return ""
	}
	return gangCapacity{placed: len(m.placed), free: free, empty: count(s, s.emptyCapacity)}.refusalReason(of.minMember)
}
