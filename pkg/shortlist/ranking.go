package shortlist

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// Unfit is the value of a node that cannot take the pod. All other values are 0 or more.
const Unfit int64 = -1

// maxRemembered bounds the nodes in all rankings together, at about 32 bytes each.
const maxRemembered = 1 << 19

// Rankings remembers a [Ranking] for each kind of pod. The zero value is empty. It is used by one goroutine.
type Rankings[Kind comparable] struct {
	known map[Kind]*Ranking
	nodes int
}

// Lister finds a node of the snapshot.
type Lister interface {
	Get(name string) (fwk.NodeInfo, error)
}

// Of returns what is remembered for pods of a kind, which must tell apart all pods that a node of the cell is not worth
// the same to. A kind should name its cell by pointer, and what else changes a value.
func (k *Rankings[Kind]) Of(kind Kind, q Question, lister Lister) *Ranking {
	if r := k.known[kind]; r != nil {
		if r.isOf(q.Nodes) {
			return r
		}
		k.nodes -= len(r.nodes)
	}
	if k.nodes > maxRemembered || k.known == nil {
		k.known, k.nodes = map[Kind]*Ranking{}, 0
	}
	r := newRanking(q, lister)
	k.known[kind] = r
	k.nodes += len(r.nodes)
	return r
}

// Ranking is what the nodes of a cell were worth to pods of one kind when they were last looked at. Looking again costs
// a comparison a node, and a judgement of those that changed: a scheduling cycle changes one.
type Ranking struct {
	// nodes are in order of name. They are those of the snapshot as long as it consists of the same nodes, which its
	// list tells: kube-scheduler makes another list whenever a node comes or goes.
	nodes []fwk.NodeInfo
	all   []fwk.NodeInfo

	generations []int64
	values      []int64
}

func newRanking(q Question, lister Lister) *Ranking {
	r := &Ranking{nodes: make([]fwk.NodeInfo, 0, q.Cell.Names.Len()), all: q.Nodes}
	for _, name := range slices.Sorted(maps.Keys(q.Cell.Names)) {
		// A node that is in the informer may not be in the snapshot yet.
		if node, err := lister.Get(name); err == nil {
			r.nodes = append(r.nodes, node)
		}
	}
	r.generations, r.values = make([]int64, len(r.nodes)), make([]int64, len(r.nodes))
	for i := range r.generations {
		r.generations[i] = -1 // which no node has
	}
	return r
}

// isOf reports whether these are the same list of nodes.
func (r *Ranking) isOf(nodes []fwk.NodeInfo) bool {
	return len(nodes) == len(r.all) && (len(nodes) == 0 || &nodes[0] == &r.all[0])
}

// Update judges the nodes that changed since the last time.
func (r *Ranking) Update(worth func(fwk.NodeInfo) int64) {
	for i, node := range r.nodes {
		if generation := node.GetGeneration(); generation != r.generations[i] {
			r.values[i], r.generations[i] = worth(node), generation
		}
	}
}

// Fit returns how many of the nodes can take the pod.
func (r *Ranking) Fit() int {
	fit := 0
	for _, value := range r.values {
		if value != Unfit {
			fit++
		}
	}
	return fit
}

// First returns the nodes to try first, in no order: all those of the highest value, and those of lower ones as long
// as that makes no more than size nodes. Equals stay together, since other plugins decide among them.
func (r *Ranking) First(size int) []fwk.NodeInfo {
	least, count := r.highest(nil)
	if count == 0 {
		return nil
	}
	for {
		next, more := r.highest(&least)
		if more == 0 || count+more > size {
			return r.atLeast(least, count)
		}
		least, count = next, count+more
	}
}

// highest returns the highest value, below a bound if there is one, and how many nodes have it.
func (r *Ranking) highest(below *int64) (value int64, count int) {
	for _, v := range r.values {
		switch {
		case v == Unfit || below != nil && v >= *below:
		case count == 0 || v > value:
			value, count = v, 1
		case v == value:
			count++
		}
	}
	return value, count
}

func (r *Ranking) atLeast(value int64, count int) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, count)
	for i, v := range r.values {
		if v != Unfit && v >= value {
			nodes = append(nodes, r.nodes[i])
		}
	}
	return nodes
}

// Best returns the nodes of the highest values, at most count of them, the best first and equal ones by name.
func (r *Ranking) Best(count int) []fwk.NodeInfo {
	best := make([]int, 0, count+1)
	for i, value := range r.values {
		if value == Unfit || len(best) == count && value <= r.values[best[count-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, value, func(other int, value int64) int {
			if value > r.values[other] {
				return 1
			}
			return -1 // equals that were found before come first by name
		})
		best = slices.Insert(best, at, i)
		best = best[:min(len(best), count)]
	}
	nodes := make([]fwk.NodeInfo, len(best))
	for i := range best {
		nodes[i] = r.nodes[best[i]]
	}
	return nodes
}
