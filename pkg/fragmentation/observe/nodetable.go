package observe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// nodeTable is the capacity of the nodes of each pool, and which of them are idle. It follows the snapshot: a changed node is read again. The zero value is empty.
type nodeTable struct {
	nodes map[string]*seenNode
	pools map[string]*fragmentation.Pool
	idle  map[string]fragmentation.IdleNodes // by pool
	round int64
	// listed is the snapshot list of the last read, and seen its position in the changes.
	listed []fwk.NodeInfo
	seen   cycle.Mark
}

// seenNode is a node as it was when it was read, and the last round that found it there.
type seenNode struct {
	info  fwk.NodeInfo
	node  *corev1.Node
	offer fragmentation.Offer
	// idle is what is left of the node if it counts as idle, else zero; idleIn is its pool then.
	idle   fragmentation.Shape
	idleIn string
	round  int64
}

// fewChanged is the minimum ratio of all nodes to changed nodes at which the changed ones are looked up by name.
const fewChanged = 4

// updateNodes reads the changed nodes, and reports whether the pools have changed. A changed pool is a new object, the others stay the same. It only
// visits the changed nodes if the changes are known.
func (t *nodeTable) updateNodes(nodes []fwk.NodeInfo, changes *cycle.Changes, devices Devices) bool {
	names, few := changes.ChangedSince(&t.seen, len(nodes)/fewChanged)
	if !few || !cycle.SameNodes(nodes, t.listed) {
		t.listed = nodes
		return t.updateAll(nodes, devices)
	}
	changed := sets.Set[string]{}
	for _, name := range names {
		if known := t.nodes[name]; known != nil {
			known.readNode(changed, devices)
			t.countIdle(known, idleOf(known))
		}
	}
	return t.sumPools(changed)
}

// countIdle replaces what is counted of an idle node.
func (t *nodeTable) countIdle(n *seenNode, left fragmentation.Shape) {
	if left == n.idle && n.offer.Pool == n.idleIn {
		return
	}
	if counts := t.idle[n.idleIn]; n.idle.Cards > 0 {
		if counts[n.idle]--; counts[n.idle] == 0 {
			delete(counts, n.idle)
		}
	}
	n.idle, n.idleIn = left, n.offer.Pool
	if left.Cards == 0 {
		return
	}
	if t.idle == nil {
		t.idle = map[string]fragmentation.IdleNodes{}
	}
	if t.idle[n.idleIn] == nil {
		t.idle[n.idleIn] = fragmentation.IdleNodes{}
	}
	t.idle[n.idleIn][left]++
}

// idleOf returns what is left of a node without a GPU in use, zero for others.
func idleOf(n *seenNode) fragmentation.Shape {
	if n.offer.Cards == 0 || n.info.Node() == nil || HasGPUsInUse(n.info) {
		return fragmentation.Shape{}
	}
	left := n.offer.Shape
	left.MilliCPU, left.MemoryMiB = LeftOf(n.info)
	return left
}

// readNode reads a node again, if it has changed, and records its pools.
func (n *seenNode) readNode(changed sets.Set[string], devices Devices) {
	node := n.info.Node()
	if n.node == node || node == nil {
		return
	}
	n.node = node
	if now := offerOf(n.info, devices); !now.Equal(&n.offer) {
		changed.Insert(n.offer.Pool, now.Pool)
		n.offer = now
	}
}

// updateAll visits all nodes.
func (t *nodeTable) updateAll(nodes []fwk.NodeInfo, devices Devices) bool {
	if t.nodes == nil {
		t.nodes = map[string]*seenNode{}
	}
	t.round++
	here := 0
	changed := sets.Set[string]{}
	for _, info := range nodes {
		node := info.Node()
		if node == nil {
			continue
		}
		known := t.nodes[node.Name]
		if known == nil {
			known = &seenNode{}
			t.nodes[node.Name] = known
		}
		known.info, known.round = info, t.round
		here++
		known.readNode(changed, devices)
		t.countIdle(known, idleOf(known))
	}
	if len(t.nodes) > here {
		t.dropOthers(changed)
	}
	return t.sumPools(changed)
}

// dropOthers drops the nodes that this round has not found, and records their pools.
func (t *nodeTable) dropOthers(changed sets.Set[string]) {
	for name, known := range t.nodes {
		if known.round != t.round {
			changed.Insert(known.offer.Pool)
			t.countIdle(known, fragmentation.Shape{})
			delete(t.nodes, name)
		}
	}
}

// sumPools recomputes the pools whose nodes may have changed, and reports whether there were any.
func (t *nodeTable) sumPools(changed sets.Set[string]) bool {
	if changed.Len() == 0 {
		return false
	}
	pools := map[string]*fragmentation.Pool{}
	for name, pool := range t.pools {
		if !changed.Has(name) {
			pools[name] = pool
		}
	}
	for _, known := range t.nodes {
		offer := &known.offer
		if offer.Cards == 0 || !changed.Has(offer.Pool) {
			continue
		}
		if pools[offer.Pool] == nil {
			pools[offer.Pool] = &fragmentation.Pool{}
		}
		pools[offer.Pool].Add(offer)
	}
	for name := range changed {
		if now, before := pools[name], t.pools[name]; now != nil && before != nil && now.Equal(before) {
			pools[name] = before
		}
	}
	t.pools = pools
	return true
}
