package coscheduling

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// guests are members of a gang that are to be placed on a node.
type guests struct {
	*seat
	count int
}

// change is a hypothetical change to a node.
type change struct {
	// come are additional members on the node.
	come []guests
	// gone are pods that have left the node.
	gone []fwk.PodInfo
	// empty says that the node is open and has no other pods.
	empty bool
}

// beside returns how many more such pods a node has room for after a change.
func (s *seat) beside(c *change, info fwk.NodeInfo, b bearing) int {
	access := s.accessTo(info.Node())
	if access == never || !c.empty && !s.isOpen(info.Node(), access) {
		return 0
	}
	room := s.sums(c, info, b)
	if !c.empty && room > 0 {
		room = min(room, s.promised.Room(info, asksOf(c.come)...))
	}
	if room > 0 && s.demand.NeedsCards() {
		view := b.cards.Node(info)
		used := gpu.Used{}
		if !c.empty {
			var few [16]types.UID
			used = view.Without(appendUIDs(few[:0], c.gone))
		}
		if !seatAll(view.Allocator, &used, c.come) {
			return 0
		}
		room = within(view.Allocator.Room(&used, &s.demand), room)
	}
	return room
}

// sums returns how many such pods fit on a node after a change, by resource amounts alone.
func (s *seat) sums(c *change, info fwk.NodeInfo, b bearing) int {
	room := maxMembers
	if s.alone {
		room = 1
	}
	for _, ask := range s.asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		if c.empty {
			taken = 0
		} else {
			taken = max(0, max(0, taken)-cycle.HeldBy(c.gone, ask.Resource)) + cycle.SumOf(b.kept[info.Node().Name], ask.Resource)
		}
		for _, other := range c.come {
			taken += int64(other.count) * cycle.SumOf(other.asks, ask.Resource)
		}
		room = within(max(0, offered-taken)/ask.Amount, room)
	}
	return room
}

func appendUIDs(uids []types.UID, pods []fwk.PodInfo) []types.UID {
	for _, pod := range pods {
		uids = append(uids, pod.GetPod().UID)
	}
	return uids
}

// seatAll allocates GPUs to guests, and returns false if there are too few.
func seatAll(cards *gpu.Allocator, used *gpu.Used, others []guests) bool {
	for _, other := range others {
		for range other.count {
			chosen, why := cards.Allocate(used, &other.demand)
			if !why.IsZero() {
				return false
			}
			used.Add(&chosen.Holding)
		}
	}
	return true
}

// asksOf returns the combined requests of guests.
func asksOf(others []guests) (asks []cycle.Ask) {
	for _, other := range others {
		for range other.count {
			asks = append(asks, other.asks...)
		}
	}
	return asks
}
