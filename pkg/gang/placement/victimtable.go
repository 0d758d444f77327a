package placement

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// CapacityTables cache how much room nodes have for recently tried pods, so that an attempt of a waiting gang costs a comparison for each node, and a
// count for each changed node. Gangs with equal requirements share a table. Only the goroutine of the scheduling cycle uses them.
type CapacityTables struct {
	Tables []*capacityTable
	Trees  []*topologyTree
	ranks  lowestPriorities
	// Weights cache the pods on the nodes of large pools.
	Weights PodLosses
}

// Bounds of the cache: 16 tables of 5,000 nodes take 2 MiB, and pods with more to compare than that are not compared with all of them in each
// cycle.
const (
	MaxTables  = 16
	MaxWritten = 1_000
)

// lowestPriorities are the lowest priority on each node of a list.
type lowestPriorities struct {
	nodes  []fwk.NodeInfo
	at     []int64
	lowest []int32
}

// HasPodsBelow reports whether a node has terminating pods, or pods of lower priority. It only visits the nodes that have changed since the last
// call.
func (t *CapacityTables) HasPodsBelow(nodes []fwk.NodeInfo, below int32) bool {
	r := &t.ranks
	if !cycle.SameNodes(r.nodes, nodes) {
		*r = lowestPriorities{nodes: nodes, at: make([]int64, len(nodes)), lowest: make([]int32, len(nodes))}
		for node := range r.at {
			r.at[node] = -1 // which no node has
		}
	}
	for node, info := range nodes {
		if generation := info.GetGeneration(); r.at[node] != generation {
			r.at[node], r.lowest[node] = generation, lowestPriorityOn(info)
		}
		if r.lowest[node] < below {
			return true
		}
	}
	return false
}

// lowestPriorityOn returns the lowest priority on a node. A terminating pod ranks below all others.
func lowestPriorityOn(info fwk.NodeInfo) int32 {
	least := int32(math.MaxInt32)
	for _, on := range info.GetPods() {
		if on.GetPod().DeletionTimestamp != nil {
			return math.MinInt32
		}
		least = min(least, corev1helpers.PodPriority(on.GetPod()))
	}
	return least
}

// capacityTable caches the room of each node of a list for pods like one.
type capacityTable struct {
	pod   *corev1.Pod
	nodes []fwk.NodeInfo
	// At are the node generations that were counted: each belongs to one state of one node.
	At          []int64
	free, empty []int32
}

// TableFor returns the table for pods like one, nil for a pod with too much to compare. The table moves to the front.
func (t *CapacityTables) TableFor(pod *corev1.Pod, nodes []fwk.NodeInfo) *capacityTable {
	if t == nil || comparisonCost(pod) > MaxWritten {
		return nil
	}
	i := slices.IndexFunc(t.Tables, func(known *capacityTable) bool { return HaveSameDemand(known.pod, pod) })
	var found *capacityTable
	switch {
	case i >= 0:
		found = t.Tables[i]
		t.Tables = slices.Delete(t.Tables, i, i+1)
	case len(t.Tables) == MaxTables:
		t.Tables = t.Tables[:MaxTables-1]
	}
	if found == nil || !cycle.SameNodes(found.nodes, nodes) {
		found = &capacityTable{pod: pod, nodes: nodes, At: make([]int64, len(nodes)), free: make([]int32, len(nodes)), empty: make([]int32, len(nodes))}
		for node := range found.At {
			found.At[node] = -1 // which no node has
		}
	}
	t.Tables = slices.Insert(t.Tables, 0, found)
	return found
}

// capacityOn returns how many pods of a slot a node has room for, now and when it is empty, less what is reserved for other pods.
func (t *capacityTable) capacityOn(node int, s *PodSlot, b ClusterSnapshot) (free, empty int) {
	free, empty = t.cachedCapacity(node, s, b)
	if s.reservations.FirstOn(b.Nodes[node].Node()) != nil || s.request.ExcludesNode(b.Nodes[node].Node()) {
		free = 0
	}
	if free > 0 {
		free = min(free, s.startReservations.RoomFor(b.Nodes[node]))
	}
	return free, empty
}

// cachedCapacity returns what capacityOn counts, cached until the node changes.
func (t *capacityTable) cachedCapacity(node int, s *PodSlot, b ClusterSnapshot) (free, empty int) {
	info := b.Nodes[node]
	if t == nil || len(b.Kept) > 0 && b.Kept[info.Node().Name] != nil {
		return s.capacityOn(info, b, MaxMembers)
	}
	if generation := info.GetGeneration(); t.At[node] != generation {
		free, empty := s.capacityOn(info, b, MaxMembers)
		t.At[node], t.free[node], t.empty[node] = generation, int32(free), int32(empty)
	}
	return int(t.free[node]), int(t.empty[node])
}
