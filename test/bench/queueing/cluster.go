package queueing

import (
	"math/bits"
	"math/rand/v2"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Cluster is how many GPUs are free on each node. Nodes are kept by that number, so that the best fit for a pod is
// found without a look at all of them.
type Cluster struct {
	free []int
	rack []int
	// level holds, for each number of free GPUs, the nodes that have just as many.
	level [trace.GPUsPerNode + 1]nodeSet
	// idle is how many GPUs are free in all.
	idle int
	// ties, if set, decides between equal nodes.
	ties *rand.Rand
}

// nodeSet is a set of node indices and its size.
type nodeSet struct {
	words []uint64
	size  int
}

// NewCluster is a cluster of empty nodes, cut into racks of equal size, give or take one node.
func NewCluster(nodes, racks int) *Cluster {
	c := &Cluster{free: make([]int, nodes), rack: make([]int, nodes), idle: nodes * trace.GPUsPerNode}
	for level := range c.level {
		c.level[level].words = make([]uint64, (nodes+63)/64)
	}
	for node := range nodes {
		c.free[node] = trace.GPUsPerNode
		c.rack[node] = node * racks / nodes
		c.level[trace.GPUsPerNode].add(node)
	}
	return c
}

// BreakTies has equal nodes chosen by chance, as a seed fixes it, and not the first of them. No policy is better or worse
// for it, so it shows how much of a difference between two policies is chance.
func (c *Cluster) BreakTies(seed uint64) { c.ties = rand.New(rand.NewPCG(seed, seed)) }

// Nodes is how many there are.
func (c *Cluster) Nodes() int { return len(c.free) }

// Free is how many GPUs of a node are free.
func (c *Cluster) Free(node int) int { return c.free[node] }

// Idle is how many GPUs are free in all.
func (c *Cluster) Idle() int { return c.idle }

// Rack is the rack that a node is in.
func (c *Cluster) Rack(node int) int { return c.rack[node] }

// Fits says whether there is room for all pods of a gang, each on a node of its own.
func (c *Cluster) Fits(gang trace.Gang) bool {
	spare := c.level[trace.GPUsPerNode].size - gang.Whole
	return spare > 0 || spare == 0 && (gang.Rest == 0 || c.tightest(gang.Rest, trace.GPUsPerNode-1) > 0)
}

// BestFit returns a node for each pod of a gang, or false if it does not fit: for whole pods the first
// free nodes, for the rest the node that it leaves the fewest free GPUs on. Of equal nodes it takes the first, but for
// BreakTies.
func (c *Cluster) BestFit(gang trace.Gang) ([]int, bool) {
	if !c.Fits(gang) {
		return nil, false
	}
	if gang.Rest == 0 {
		return c.choose(trace.GPUsPerNode, gang.Whole), true
	}
	level := c.tightest(gang.Rest, trace.GPUsPerNode-1)
	if level < 0 {
		return c.choose(trace.GPUsPerNode, gang.PodCount()), true
	}
	return append(c.choose(trace.GPUsPerNode, gang.Whole), c.choose(level, 1)...), true
}

// BestNode returns the node that a pod leaves the fewest free GPUs on, or false if it fits on none.
func (c *Cluster) BestNode(gpus int) (int, bool) {
	level := c.tightest(gpus, trace.GPUsPerNode)
	if level < 0 {
		return -1, false
	}
	return c.choose(level, 1)[0], true
}

// tightest is the least level from low to high that has nodes, or -1.
func (c *Cluster) tightest(low, high int) int {
	for level := low; level <= high; level++ {
		if c.level[level].size > 0 {
			return level
		}
	}
	return -1
}

// choose returns some of the nodes with so many GPUs free, the first or those that chance has picked; there must be as
// many.
func (c *Cluster) choose(level, count int) []int {
	nodes := make([]int, 0, count+1) // and one for the rest of a gang
	for node := c.level[level].after(0); node >= 0; node = c.level[level].after(node + 1) {
		if len(nodes) == count && c.ties == nil {
			break
		}
		nodes = append(nodes, node)
	}
	if c.ties != nil {
		c.ties.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	}
	return nodes[:count]
}

// set changes how many GPUs of a node are free.
func (c *Cluster) set(node, free int) {
	old := c.free[node]
	c.level[old].remove(node)
	c.level[free].add(node)
	c.free[node] = free
	c.idle += free - old
}

// take has the pods of a gang be on some nodes.
func (c *Cluster) take(gang trace.Gang, nodes []int) {
	for pod, node := range nodes {
		c.set(node, c.Free(node)-gang.GPUsOfPod(pod))
	}
}

// release gives back what the pods of a gang have on their nodes.
func (c *Cluster) release(gang trace.Gang, nodes []int) {
	for pod, node := range nodes {
		c.set(node, c.Free(node)+gang.GPUsOfPod(pod))
	}
}

func (c *Cluster) clone() *Cluster {
	copied := *c
	copied.free = slices.Clone(c.free)
	for level := range copied.level {
		copied.level[level].words = slices.Clone(c.level[level].words)
	}
	return &copied
}

func (s *nodeSet) add(node int)    { s.words[node/64] |= 1 << (node % 64); s.size++ }
func (s *nodeSet) remove(node int) { s.words[node/64] &^= 1 << (node % 64); s.size-- }

// after returns the first node of the set from an index on, or -1.
func (s *nodeSet) after(node int) int {
	for word := node / 64; word < len(s.words); word++ {
		rest := s.words[word]
		if word == node/64 {
			rest &= ^uint64(0) << (node % 64)
		}
		if rest != 0 {
			return word*64 + bits.TrailingZeros64(rest)
		}
	}
	return -1
}

// racks is how many racks the nodes are of.
func (c *Cluster) racks(nodes []int) int {
	seen := make(map[int]bool, 1)
	for _, node := range nodes {
		seen[c.rack[node]] = true
	}
	return len(seen)
}
