package gpufilter

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// membership tells whether the nodes of a pool or of a type may have changed. It observes the calls of the informer's index function: for each
// update of a node, first with the old object and then with the new one. If the keys are equal, as for a kubelet's heartbeat, nothing has
// changed, and the cached entries of 20,000 nodes remain valid.
type membership struct {
	// version differs after each change of the index, and returns to its old value if nothing changed.
	version atomic.Uint64

	mu   sync.Mutex
	last uint64 // the highest version used so far
	// indexed are the nodes that are in the index, by name.
	indexed map[string]*corev1.Node
	// lastRemoval is the node that the last call removed from the index, if it removed one.
	lastRemoval removal
}

// removal is a node that an informer removes from its index, permanently or to add it again.
type removal struct {
	name   string
	keys   []string
	before uint64 // the version before the removal
}

// recordIndexed observes a call of the index function. The informer holds the lock of its store.
func (m *membership) recordIndexed(node *corev1.Node, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, taken := m.version.Load(), m.lastRemoval
	m.last++
	m.version.Store(m.last)
	m.lastRemoval = removal{}
	if m.indexed[node.Name] == node {
		delete(m.indexed, node.Name)
		m.lastRemoval = removal{name: node.Name, keys: keys, before: before}
		return
	}
	if m.indexed == nil {
		m.indexed = map[string]*corev1.Node{}
	}
	m.indexed[node.Name] = node
	if taken.name == node.Name && slices.Equal(taken.keys, keys) {
		m.version.Store(taken.before)
	}
}
