package placement

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// incomingPods are members of a gang that are to be placed on a node.
type incomingPods struct {
	*PodSlot
	count int
}

// NodeChange is a hypothetical change to a node.
type NodeChange struct {
	// incoming are additional members on the node.
	incoming []incomingPods
	// Gone are pods that have left the node.
	Gone []fwk.PodInfo
	// empty says that the node is open and has no other pods.
	empty bool
}

// CapacityAfter returns how many more such pods a node has room for after a change.
func (s *PodSlot) CapacityAfter(c *NodeChange, info fwk.NodeInfo, b ClusterSnapshot) int {
	access := s.accessTo(info.Node())
	if access == accessNever || !c.empty && !s.isOpen(info.Node(), access) {
		return 0
	}
	room := s.capacityByAmounts(c, info, b)
	if !c.empty && room > 0 {
		room = min(room, s.startReservations.RoomFor(info, combinedAsks(c.incoming)...))
	}
	if room > 0 && s.Demand.NeedsGPUs() {
		view := b.DeviceCache.NodeView(info)
		used := gpu.Used{}
		if !c.empty {
			var few [16]types.UID
			used = view.UsedWithout(appendUIDs(few[:0], c.Gone))
		}
		if !allocateGPUs(view.Allocator, &used, c.incoming) {
			return 0
		}
		room = capAmount(view.Allocator.RoomFor(&used, &s.Demand), room)
	}
	return room
}

// capacityByAmounts returns how many such pods fit on a node after a change, by resource amounts alone.
func (s *PodSlot) capacityByAmounts(c *NodeChange, info fwk.NodeInfo, b ClusterSnapshot) int {
	room := MaxMembers
	if s.isExclusive {
		room = 1
	}
	for _, ask := range s.Asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		if c.empty {
			taken = 0
		} else {
			taken = max(0, max(0, taken)-cycle.HeldBy(c.Gone, ask.Resource)) + cycle.SumOf(b.Kept[info.Node().Name], ask.Resource)
		}
		for _, other := range c.incoming {
			taken += int64(other.count) * cycle.SumOf(other.Asks, ask.Resource)
		}
		room = capAmount(max(0, offered-taken)/ask.Amount, room)
	}
	return room
}

func appendUIDs(uids []types.UID, pods []fwk.PodInfo) []types.UID {
	for _, pod := range pods {
		uids = append(uids, pod.GetPod().UID)
	}
	return uids
}

// allocateGPUs allocates GPUs to guests, and returns false if there are too few.
func allocateGPUs(cards *gpu.Allocator, used *gpu.Used, others []incomingPods) bool {
	for _, other := range others {
		for range other.count {
			chosen, why := cards.Allocate(used, &other.Demand)
			if !why.IsZero() {
				return false
			}
			used.Add(&chosen.Holding)
		}
	}
	return true
}

// combinedAsks returns the combined requests of guests.
func combinedAsks(others []incomingPods) (asks []cycle.ResourceRequest) {
	for _, other := range others {
		for range other.count {
			asks = append(asks, other.Asks...)
		}
	}
	return asks
}
