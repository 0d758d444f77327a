package observe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// nodeTable is what the nodes of each pool have. It follows the snapshot: a node is read again when it has changed, which
// costs the others a look into a map. The zero value has no node.
type nodeTable struct {
	nodes map[string]*seenNode
	pools map[string]*fragmentation.Pool
	round int64
}

// seenNode is a node as it was when it was read, and the last round that found it there.
type seenNode struct {
	node  *corev1.Node
	offer fragmentation.Offer
	round int64
}

// update reads the nodes that have changed, and reports whether the pools have. A pool that has is another one
// afterwards, the others are the same.
func (t *nodeTable) update(nodes []fwk.NodeInfo, devices Devices) bool {
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
		known.round = t.round
		here++
		if known.node == node {
			continue
		}
		known.node = node
		if now := offerOf(info, devices); !now.Equal(&known.offer) {
			changed.Insert(known.offer.Pool, now.Pool)
			known.offer = now
		}
	}
	if len(t.nodes) > here {
		t.dropOthers(changed)
	}
	return t.sum(changed)
}

// dropOthers forgets the nodes that this round has not found, and notes their pools.
func (t *nodeTable) dropOthers(changed sets.Set[string]) {
	for name, known := range t.nodes {
		if known.round != t.round {
			changed.Insert(known.offer.Pool)
			delete(t.nodes, name)
		}
	}
}

// sum sums up the pools whose nodes may be others, and reports whether there were any.
func (t *nodeTable) sum(changed sets.Set[string]) bool {
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
