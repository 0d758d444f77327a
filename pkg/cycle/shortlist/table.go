package shortlist

import (
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// table is which state each candidate is in. It is one for all kinds of pods.
type table[S comparable] struct {
	nodes       []fwk.NodeInfo // in order of name
	generations []int64
	states      []int32 // numbers, by node

	numbers map[S]int32
	named   []S   // the states, by number
	count   []int // how many nodes are in each
	// renumbered is how often the states have been numbered again.
	renumbered int
}

func newTable[S comparable](q Question, lister Lister) *table[S] {
	t := &table[S]{numbers: map[S]int32{}}
	if q.Candidates.Names == nil {
		t.nodes = slices.SortedFunc(slices.Values(q.Nodes), func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	} else {
		t.nodes = make([]fwk.NodeInfo, 0, q.Candidates.Names.Len())
		for _, name := range slices.Sorted(maps.Keys(q.Candidates.Names)) {
			// A node that is in the informer may not be in the snapshot yet.
			if node, err := lister.Get(name); err == nil {
				t.nodes = append(t.nodes, node)
			}
		}
	}
	t.forget()
	return t
}

// forget has all nodes looked at again.
func (t *table[S]) forget() {
	t.generations, t.states = make([]int64, len(t.nodes)), make([]int32, len(t.nodes))
	for i := range t.generations {
		t.generations[i] = -1 // which no node has
	}
	t.named, t.count = t.named[:0], t.count[:0]
	clear(t.numbers)
	t.renumbered++
}

// update finds the state of the nodes that changed since the last time.
func (t *table[S]) update(stateOf func(fwk.NodeInfo) S) {
	if len(t.count) > 4*len(t.nodes)+64 { // most of them are past
		t.forget()
	}
	for i, node := range t.nodes {
		generation := node.GetGeneration()
		if generation == t.generations[i] {
			continue
		}
		if t.generations[i] >= 0 {
			t.count[t.states[i]]--
		}
		t.generations[i], t.states[i] = generation, t.number(stateOf(node))
		t.count[t.states[i]]++
	}
}

func (t *table[S]) number(state S) int32 {
	number, known := t.numbers[state]
	if !known {
		number = int32(len(t.count))
		t.numbers[state] = number
		t.named, t.count = append(t.named, state), append(t.count, 0)
	}
	return number
}

// byValue goes through the nodes that can take the pod, the highest value first: all nodes of one value together, in order
// of name. The nodes are gathered for several values at once, with as many nodes as are likely to be asked for, and twice
// as many each time.
func (r *Ranking[S]) byValue(likely int) iter.Seq2[[]fwk.NodeInfo, int64] {
	return func(yield func([]fwk.NodeInfo, int64) bool) {
		order := r.order()
		places := make([]int32, len(r.values))
		for order.Len() > 0 {
			groups, values := r.gather(order.next(likely), places)
			for i, equals := range groups {
				if !yield(equals, values[i]) {
					return
				}
			}
			likely *= 2
		}
	}
}

// gather returns the nodes in some states, of descending value, and the values: a group of nodes for each. places is room
// for a number for each state, all 0.
func (r *Ranking[S]) gather(states, places []int32) (groups [][]fwk.NodeInfo, values []int64) {
	for i, state := range states {
		if i == 0 || r.values[state] != r.values[states[i-1]] {
			values = append(values, r.values[state])
		}
		places[state] = int32(len(values)) // from 1
	}
	groups = make([][]fwk.NodeInfo, len(values))
	for i, state := range r.table.states {
		if place := places[state]; place > 0 {
			groups[place-1] = append(groups[place-1], r.table.nodes[i])
		}
	}
	for _, state := range states {
		places[state] = 0
	}
	return groups, values
}

// order is the states that nodes are in which can take the pod, as a heap with the highest value on top.
type order[S comparable] struct {
	*Ranking[S]
	states []int32
}

func (r *Ranking[S]) order() *order[S] {
	o := &order[S]{Ranking: r}
	for state, nodes := range r.table.count {
		if nodes > 0 && r.values[state] != Unfit {
			o.states = append(o.states, int32(state))
		}
	}
	heap.Init(o)
	return o
}

// next returns the next states, of descending value, that have so many nodes together; all states of a value or none.
func (o *order[S]) next(nodes int) []int32 {
	var next []int32
	for got := 0; o.Len() > 0; {
		top := o.states[0]
		if got >= nodes && o.values[top] != o.values[next[len(next)-1]] {
			break
		}
		next = append(next, top)
		got += o.table.count[top]
		heap.Pop(o)
	}
	return next
}

// Len implements heap.Interface.
func (o *order[S]) Len() int { return len(o.states) }

// Less implements heap.Interface.
func (o *order[S]) Less(i, j int) bool { return o.values[o.states[i]] > o.values[o.states[j]] }

// Swap implements heap.Interface.
func (o *order[S]) Swap(i, j int) { o.states[i], o.states[j] = o.states[j], o.states[i] }

// Push implements heap.Interface.
func (o *order[S]) Push(state any) { o.states = append(o.states, state.(int32)) }

// Pop implements heap.Interface.
func (o *order[S]) Pop() any {
	last := o.states[len(o.states)-1]
	o.states = o.states[:len(o.states)-1]
	return last
}
