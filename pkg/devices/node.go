package devices

import (
	"maps"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// slot is the state of one node.
type slot struct {
	// changes counts the choices made or dropped on the node.
	changes atomic.Uint64
	view    atomic.Pointer[View]

	mu sync.Mutex
	// made are the allocators of the node's two last contents, the last one first: a queueing hint compares a node with its previous
	// state.
	made [2]cachedAllocator
	// reported is the problem that was reported last.
	reported problem
}

// cachedAllocator is an allocator and a node that it is for.
type cachedAllocator struct {
	node      *corev1.Node
	allocator *gpu.Allocator
}

// problem is the error of an inventory, and its annotation.
type problem struct{ annotation, text string }

// slotOf returns a node's slot. A node that is not in the informer is gone, or not there yet: its slot is not stored, since it would never be
// dropped. The informer removes a node before it calls the handler that drops the slot.
func (l *Cache) slotOf(node string) *slot {
	if s, ok := l.nodes.Load(node); ok {
		return s.(*slot)
	}
	l.adding.Lock()
	defer l.adding.Unlock()
	if !l.sink.hasNode(node) {
		return &slot{}
	}
	s, _ := l.nodes.LoadOrStore(node, &slot{})
	return s.(*slot)
}

// dropNode drops the state of a node. The pods on it are removed by events of their own.
func (l *Cache) dropNode(node string) {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.nodes.Delete(node)
}

// AllocatorFor returns the allocator of a node, which is the same for equal contents of the node. A malformed inventory is reported once, and its
// valid part is used.
func (l *Cache) AllocatorFor(node *corev1.Node) *gpu.Allocator {
	return l.allocatorFor(l.slotOf(node.Name), node)
}

func (l *Cache) allocatorFor(s *slot, node *corev1.Node) *gpu.Allocator {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.made {
		if s.made[i].node == node {
			return s.made[i].allocator
		}
	}
	for i := range s.made {
		if s.made[i].node != nil && haveSameGPUs(s.made[i].node, node) {
			s.made[i].node = node
			return s.made[i].allocator
		}
	}
	allocator := l.newAllocator(s, node)
	s.made[1], s.made[0] = s.made[0], cachedAllocator{node, allocator}
	return allocator
}

// newAllocator reads a node's inventory.
func (l *Cache) newAllocator(s *slot, node *corev1.Node) *gpu.Allocator {
	allocator, err := gpu.AllocatorOf(node, &l.topologies)
	if err != nil {
		if p := (problem{node.Annotations[names.AnnotationInventory], err.Error()}); p != s.reported {
			s.reported = p
			l.sink.reportProblem(node, err)
		}
	}
	return allocator
}

// haveSameGPUs reports whether two versions of a node have the same GPUs: everything that gpu.InventoryOf reads is equal.
func haveSameGPUs(a, b *corev1.Node) bool {
	textA, okA := a.Annotations[names.AnnotationInventory]
	textB, okB := b.Annotations[names.AnnotationInventory]
	return okA == okB && textA == textB && maps.Equal(a.Labels, b.Labels) &&
		offeredAmount(a, names.ResourceGPU) == offeredAmount(b, names.ResourceGPU) &&
		offeredAmount(a, names.ResourceSharedGPU) == offeredAmount(b, names.ResourceSharedGPU)
}

// offeredAmount returns a node's allocatable amount of a resource, and -1 if it does not offer it at all.
func offeredAmount(node *corev1.Node, name corev1.ResourceName) int64 {
	quantity, ok := node.Status.Allocatable[name]
	if !ok {
		return -1
	}
	return quantity.Value()
}
