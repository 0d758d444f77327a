package gpuscore

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// fleet is what the nodes of each pool have. It follows the snapshot: a node is read again when it has changed, which
// costs the others a comparison. The zero value has no node.
type fleet struct {
	members []member // in the order of the snapshot
	pools   map[string]*pool
}

// member is a node, as it was when it was read.
type member struct {
	node *corev1.Node
	offer
}

// offer is what a node has when nothing runs on it. That of a node without healthy cards is zero.
type offer struct {
	pool  string
	shape fragmentation.Shape
	// cards counts also those that are not healthy, and sizes are the memory that there is of cards, in MiB.
	cards int64
	sizes []int64
}

func (o *offer) equal(other *offer) bool {
	return o.pool == other.pool && o.shape == other.shape && o.cards == other.cards && slices.Equal(o.sizes, other.sizes)
}

// offerOf reads a node.
func offerOf(node fwk.NodeInfo, devices Devices) offer {
	allocator, _, _ := devices.Cards(node)
	if node.Node() == nil || allocator.Healthy() == 0 {
		return offer{}
	}
	cards := allocator.Inventory().Cards
	o := offer{pool: gpu.PoolOf(node.Node()), shape: shapeOf(node, allocator), cards: int64(len(cards))}
	for i := range cards {
		if !slices.Contains(o.sizes, cards[i].MemoryMiB) {
			o.sizes = append(o.sizes, cards[i].MemoryMiB)
		}
	}
	return o
}

// update reads the nodes that have changed, and reports whether any has. A pool that has is another one afterwards, the
// others are the same.
func (f *fleet) update(nodes []fwk.NodeInfo, devices Devices) bool {
	changed := sets.Set[string]{}
	for _, gone := range f.members[min(len(nodes), len(f.members)):] {
		changed.Insert(gone.pool)
	}
	f.members = f.members[:min(len(nodes), len(f.members))]
	for i, node := range nodes {
		if i == len(f.members) {
			f.members = append(f.members, member{})
		}
		known := &f.members[i]
		if known.node == node.Node() && known.node != nil {
			continue
		}
		known.node = node.Node()
		if now := offerOf(node, devices); !now.equal(&known.offer) {
			changed.Insert(known.pool, now.pool)
			known.offer = now
		}
	}
	f.count(changed)
	return changed.Len() > 0
}

// count sums up the pools whose nodes may be others.
func (f *fleet) count(changed sets.Set[string]) {
	if changed.Len() == 0 {
		return
	}
	pools := map[string]*pool{}
	for name, p := range f.pools {
		if !changed.Has(name) {
			pools[name] = p
		}
	}
	for i := range f.members {
		node := &f.members[i].offer
		if node.cards == 0 || !changed.Has(node.pool) {
			continue
		}
		if pools[node.pool] == nil {
			pools[node.pool] = &pool{
				name: node.pool, capacity: map[string]int64{}, sizes: sets.Set[int64]{}, shapes: map[fragmentation.Shape]int64{},
			}
		}
		pools[node.pool].add(node)
	}
	for name := range changed {
		if p, last := pools[name], f.pools[name]; p != nil && last != nil && p.equal(last) {
			pools[name] = last
		}
	}
	f.pools = pools
}

// pool is what the nodes of a pool have.
type pool struct {
	name string
	// capacity is the healthy cards by type, sizes the memory that there is of cards, in MiB.
	capacity map[string]int64
	sizes    sets.Set[int64]
	// shapes is how many nodes there are of each.
	shapes map[fragmentation.Shape]int64
	// cards, milliCPU and memoryMiB are the most that one node has, each for itself.
	cards, milliCPU, memoryMiB int64
}

func (p *pool) equal(other *pool) bool {
	return maps.Equal(p.shapes, other.shapes) && maps.Equal(p.capacity, other.capacity) && maps.Equal(p.sizes, other.sizes) &&
		p.cards == other.cards && p.milliCPU == other.milliCPU && p.memoryMiB == other.memoryMiB
}

func (p *pool) add(node *offer) {
	p.shapes[node.shape]++
	p.capacity[node.shape.Type] += node.shape.Cards
	p.sizes.Insert(node.sizes...)
	p.cards = max(p.cards, node.cards)
	p.milliCPU = max(p.milliCPU, node.shape.MilliCPU)
	p.memoryMiB = max(p.memoryMiB, node.shape.MemoryMiB)
}

// demand returns pods of the pool, as cards of a size see them. Pods that no node of the pool could hold, were it empty,
// are none: they will not come, and one that asks for enough would outweigh all others.
func (p *pool) demand(counts map[ask]int64, cardMiB int64) fragmentation.Demand {
	demand := fragmentation.Demand{}
	for asked, pods := range counts {
		if p.couldHold(&asked, cardMiB) {
			if class := asked.class(cardMiB); class.Cards > 0 {
				demand[class] += pods
			}
		}
	}
	return demand
}

// couldHold reports whether the pool's largest node, with cards of a size, has as much as a pod asks for.
func (p *pool) couldHold(a *ask, cardMiB int64) bool {
	slots := p.cards * (cardMiB / max(a.shareMiB, 1))
	return a.whole <= p.cards && a.shared <= slots && a.milliCPU <= p.milliCPU && a.memoryMiB <= p.memoryMiB
}

func shapeOf(node fwk.NodeInfo, allocator *gpu.Allocator) fragmentation.Shape {
	return fragmentation.Shape{
		Cards:    int64(allocator.Healthy().Len()),
		MilliCPU: node.GetAllocatable().GetMilliCPU(), MemoryMiB: node.GetAllocatable().GetMemory() >> 20,
		Type: gpu.TypeOf(node.Node()),
	}
}
