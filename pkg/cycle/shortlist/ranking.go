package shortlist

import (
	"cmp"
	"maps"
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// Unfit is the value of a node that cannot take the pod. All other values are 0 or more.
const Unfit int64 = -1

// Bounds of what is remembered.
const (
	// maxKinds bounds the kinds of pods. A cluster has some dozen at a time.
	maxKinds = 512
	// maxNodes bounds the nodes in the rankings of all kinds together, at 32 bytes each: 16 MiB.
	maxNodes = 1 << 19
)

// Kind tells apart pods that a candidate is not worth the same to, and knows which kinds come no more.
type Kind[K any] interface {
	comparable
	// Ends reports whether no more pods of another kind will come, now that there is one of this.
	Ends(other K) bool
}

// Rankings remembers a [Ranking] for each kind of pod, those asked for last. It holds on to nothing that is out of date:
// neither nodes of an earlier snapshot nor kinds that have ended. The zero value is empty. It is used by one goroutine.
type Rankings[K Kind[K]] struct {
	known map[K]*Ranking
	// all are the nodes of the snapshot that the rankings are of.
	all   []fwk.NodeInfo
	nodes int
	asked int64
}

// Lister finds a node of the snapshot.
type Lister interface {
	Get(name string) (fwk.NodeInfo, error)
}

// Of returns what is remembered for pods of a kind. A kind should name its candidates, and what else changes a value.
func (k *Rankings[K]) Of(kind K, q Question, lister Lister) *Ranking {
	k.asked++
	if k.known == nil || !cycle.SameNodes(k.all, q.Nodes) {
		*k = Rankings[K]{known: map[K]*Ranking{}, all: q.Nodes, asked: k.asked}
	}
	r := k.known[kind]
	if r == nil {
		r = newRanking(q, lister)
		k.makeRoom(kind, len(r.nodes))
		k.known[kind] = r
		k.nodes += len(r.nodes)
	}
	r.asked = k.asked
	return r
}

// makeRoom forgets the kinds that have ended, and those asked for least recently until there is room for a new one with
// a number of nodes.
func (k *Rankings[K]) makeRoom(kind K, nodes int) {
	for other := range k.known {
		if kind.Ends(other) {
			k.forget(other)
		}
	}
	for len(k.known) > 0 && (len(k.known) >= maxKinds || k.nodes+nodes > maxNodes) {
		k.forget(slices.MinFunc(slices.Collect(maps.Keys(k.known)), func(a, b K) int {
			return cmp.Compare(k.known[a].asked, k.known[b].asked)
		}))
	}
}

func (k *Rankings[K]) forget(kind K) {
	k.nodes -= len(k.known[kind].nodes)
	delete(k.known, kind)
}

// Ranking is what candidates were worth to pods of one kind when they were last looked at. Looking again costs
// a comparison a node, and a judgement of those that changed: a scheduling cycle changes one.
type Ranking struct {
	nodes       []fwk.NodeInfo // in order of name
	generations []int64
	values      []int64
	asked       int64 // when, counted in questions
}

func newRanking(q Question, lister Lister) *Ranking {
	r := &Ranking{nodes: make([]fwk.NodeInfo, 0, q.Candidates.Names.Len())}
	for _, name := range slices.Sorted(maps.Keys(q.Candidates.Names)) {
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
	least, count := int64(math.MaxInt64), 0
	for {
		next, more := r.highestBelow(least)
		if more == 0 || count > 0 && count+more > size {
			return r.atLeast(least, count)
		}
		least, count = next, count+more
	}
}

// highestBelow returns the highest value below a bound, and how many nodes have it: none, where there is no such value.
func (r *Ranking) highestBelow(bound int64) (value int64, count int) {
	value = Unfit
	for _, v := range r.values {
		switch {
		case v >= bound || v == Unfit:
		case v > value:
			value, count = v, 1
		case v == value:
			count++
		}
	}
	return value, count
}

// atLeast returns the nodes of a value and of higher ones, which are so many.
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
	var best []int // positions
	for i, value := range r.values {
		at := len(best)
		for at > 0 && value > r.values[best[at-1]] { // equals that were found before come first by name
			at--
		}
		if value != Unfit && at < count {
			best = slices.Insert(best, at, i)
			best = best[:min(len(best), count)]
		}
	}
	nodes := make([]fwk.NodeInfo, len(best))
	for i := range best {
		nodes[i] = r.nodes[best[i]]
	}
	return nodes
}
