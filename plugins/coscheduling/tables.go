package coscheduling

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// tables cache how much room nodes have for recently tried pods, so that an attempt of a waiting gang costs a comparison for each node, and a
// count for each changed node. Gangs with equal requirements share a table. Only the goroutine of the scheduling cycle uses them.
type tables struct {
	of    []*table
	trees []*grown
	ranks ranks
	// weights cache the pods on the nodes of large pools.
	weights weights
}

// Bounds of the cache: 16 tables of 5,000 nodes take 2 MiB, and pods with more to compare than that are not compared with all of them in each
// cycle.
const (
	maxTables  = 16
	maxWritten = 1_000
)

// ranks are the lowest priority on each node of a list.
type ranks struct {
	nodes []fwk.NodeInfo
	at    []int64
	least []int32
}

// anyBelow reports whether a node has terminating pods, or pods of lower priority. It only visits the nodes that have changed since the last
// call.
func (t *tables) anyBelow(nodes []fwk.NodeInfo, below int32) bool {
	r := &t.ranks
	if !cycle.SameNodes(r.nodes, nodes) {
		*r = ranks{nodes: nodes, at: make([]int64, len(nodes)), least: make([]int32, len(nodes))}
		for node := range r.at {
			r.at[node] = -1 // which no node has
		}
	}
	for node, info := range nodes {
		if generation := info.GetGeneration(); r.at[node] != generation {
			r.at[node], r.least[node] = generation, leastOn(info)
		}
		if r.least[node] < below {
			return true
		}
	}
	return false
}

// leastOn returns the lowest priority on a node. A terminating pod ranks below all others.
func leastOn(info fwk.NodeInfo) int32 {
	least := int32(math.MaxInt32)
	for _, on := range info.GetPods() {
		if on.GetPod().DeletionTimestamp != nil {
			return math.MinInt32
		}
		least = min(least, corev1helpers.PodPriority(on.GetPod()))
	}
	return least
}

// table caches the room of each node of a list for pods like one.
type table struct {
	like  *corev1.Pod
	nodes []fwk.NodeInfo
	// at are the node generations that were counted: each belongs to one state of one node.
	at          []int64
	free, empty []int32
}

// like returns the table for pods like one, nil for a pod with too much to compare. The table moves to the front.
func (t *tables) like(pod *corev1.Pod, nodes []fwk.NodeInfo) *table {
	if t == nil || weight(pod) > maxWritten {
		return nil
	}
	i := slices.IndexFunc(t.of, func(known *table) bool { return alike(known.like, pod) })
	var found *table
	switch {
	case i >= 0:
		found = t.of[i]
		t.of = slices.Delete(t.of, i, i+1)
	case len(t.of) == maxTables:
		t.of = t.of[:maxTables-1]
	}
	if found == nil || !cycle.SameNodes(found.nodes, nodes) {
		found = &table{like: pod, nodes: nodes, at: make([]int64, len(nodes)), free: make([]int32, len(nodes)), empty: make([]int32, len(nodes))}
		for node := range found.at {
			found.at[node] = -1 // which no node has
		}
	}
	t.of = slices.Insert(t.of, 0, found)
	return found
}

// room returns how many pods of a slot a node has room for, now and when it is empty, less what is reserved for other pods.
func (t *table) room(node int, s *seat, b bearing) (free, empty int) {
	free, empty = t.counted(node, s, b)
	if s.closed.On(b.nodes[node].Node()) != nil || s.request.Shuts(b.nodes[node].Node()) {
		free = 0
	}
	if free > 0 {
		free = min(free, s.promised.Room(b.nodes[node]))
	}
	return free, empty
}

// counted returns what capacityOn counts, cached until the node changes.
func (t *table) counted(node int, s *seat, b bearing) (free, empty int) {
	info := b.nodes[node]
	if t == nil || len(b.kept) > 0 && b.kept[info.Node().Name] != nil {
		return s.on(info, b, maxMembers)
	}
	if generation := info.GetGeneration(); t.at[node] != generation {
		free, empty := s.on(info, b, maxMembers)
		t.at[node], t.free[node], t.empty[node] = generation, int32(free), int32(empty)
	}
	return int(t.free[node]), int(t.empty[node])
}
