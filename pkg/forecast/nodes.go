package forecast

import "math/bits"

// Nodes is a set of nodes.
type Nodes struct {
	words []uint64
	size  int
}

// NewNodes is an empty set of nodes that are fewer than count.
func NewNodes(count int) *Nodes { return &Nodes{words: make([]uint64, (count+63)/64)} }

// Add adds a node, which was not in it.
func (n *Nodes) Add(node int) { n.words[node/64] |= 1 << (node % 64); n.size++ }

func (n *Nodes) removeNode(node int) { n.words[node/64] &^= 1 << (node % 64); n.size-- }

func (n *Nodes) clearNodes() {
	clear(n.words)
	n.size = 0
}

// nextIn returns the first node from one on that is also in the other set, -1 for none. nil contains all.
func (n *Nodes) nextIn(node int, among *Nodes) int {
	for word := node / 64; word < len(n.words); word++ {
		rest := n.words[word]
		if among != nil {
			rest &= among.words[word]
		}
		if word == node/64 {
			rest &= ^uint64(0) << (node % 64)
		}
		if rest != 0 {
			return word*64 + bits.TrailingZeros64(rest)
		}
	}
	return -1
}
