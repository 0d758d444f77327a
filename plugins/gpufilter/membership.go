package gpufilter

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// membership tells whether the nodes of a pool or of a type may be others than before. It sees what an informer asks its
// index function: for each update of a node the keys of what it was, and then of what it is. Where these are equal, as when
// a kubelet tells that it is well, nothing has changed for anybody, and what is remembered of 20,000 nodes stays right.
type membership struct {
	// version is another one after each change of the index, and the same again where a change was none.
	version atomic.Uint64

	mu   sync.Mutex
	last uint64 // the highest version given out
	// indexed are the nodes that are in the index, by name.
	indexed map[string]*corev1.Node
	// taken is the node that was taken out of the index by the last call, if it was that.
	taken removal
}

// removal is a node that an informer takes out of its index, for good or in order to put it in again.
type removal struct {
	name   string
	keys   []string
	before uint64 // the version that there was with the node
}

// note hears of a call of the index function. The informer holds the lock of its store.
func (m *membership) note(node *corev1.Node, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, taken := m.version.Load(), m.taken
	m.last++
	m.version.Store(m.last)
	m.taken = removal{}
	if m.indexed[node.Name] == node {
		delete(m.indexed, node.Name)
		m.taken = removal{name: node.Name, keys: keys, before: before}
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
