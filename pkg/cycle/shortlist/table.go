package shortlist

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// table is the state of each candidate, shared by all kinds of pods.
type table[S comparable] struct {
	nodes       []fwk.NodeInfo // in order of name
	generations []int64
	states      []int32 // numbers, by node

	numbers map[S]int32
	named   []S   // the states, by number
	count   []int // how many nodes are in each
	// renumbered counts how often the states have been renumbered.
	renumbered int

	// seen is the last known change of nodes. positions are the nodes' positions by name, built on first use.
	seen      cycle.Mark
	positions map[string]int32
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
	t.resetNodes()
	return t
}

// resetNodes forces all nodes to be read again.
func (t *table[S]) resetNodes() {
	t.generations, t.states = make([]int64, len(t.nodes)), make([]int32, len(t.nodes))
	for i := range t.generations {
		t.generations[i] = -1 // which no node has
	}
	t.named, t.count, t.seen = t.named[:0], t.count[:0], cycle.Mark{}
	clear(t.numbers)
	t.renumbered++
}

// fewChanged is the maximum number of changed nodes that are looked up by name, for each sixteen of the table: visiting a node is cheaper as
// part of a full scan.
const fewChanged = 4

// updateStates finds the state of the nodes that changed since the last time.
func (t *table[S]) updateStates(changes *cycle.Changes, stateOf func(fwk.NodeInfo) S) {
	if len(t.count) > 4*len(t.nodes)+64 { // most of them are past
		t.resetNodes()
	}
	changed, known := changes.ChangedSince(&t.seen, len(t.nodes)*fewChanged/16)
	if !known {
		for i := range t.nodes {
			t.refreshNode(i, stateOf)
		}
		return
	}
	if t.positions == nil {
		t.positions = make(map[string]int32, len(t.nodes))
		for i, node := range t.nodes {
			t.positions[node.Node().Name] = int32(i)
		}
	}
	for _, name := range changed {
		if i, ok := t.positions[name]; ok {
			t.refreshNode(int(i), stateOf)
		}
	}
}

// refreshNode finds the state of a node, if it has changed.
func (t *table[S]) refreshNode(i int, stateOf func(fwk.NodeInfo) S) {
	generation := t.nodes[i].GetGeneration()
	if generation == t.generations[i] {
		return
	}
	if t.generations[i] >= 0 {
		t.count[t.states[i]]--
	}
	t.generations[i], t.states[i] = generation, t.stateNumber(stateOf(t.nodes[i]))
	t.count[t.states[i]]++
}

func (t *table[S]) stateNumber(state S) int32 {
	number, known := t.numbers[state]
	if !known {
		number = int32(len(t.count))
		t.numbers[state] = number
		t.named, t.count = append(t.named, state), append(t.count, 0)
	}
	return number
}

// byValue iterates over the nodes that can take the pod, the highest value first: all nodes of one value together, in order of name. Nodes are
// collected for several values at once, as many as are likely to be needed, and twice as many each time.
func (r *Ranking[S]) byValue(likely int) iter.Seq2[[]fwk.NodeInfo, int64] {
	return func(yield func([]fwk.NodeInfo, int64) bool) {
		order := r.newOrder()
		places := make([]int32, len(r.values))
		for len(order.states) > 0 {
			groups, values := r.gatherNodes(order.nextStates(likely), places)
			for i, equals := range groups {
				if !yield(equals, values[i]) {
					return
				}
			}
			likely *= 2
		}
	}
}

// gatherNodes returns the nodes in some states, of descending value, and the values: one group of nodes for each. places is scratch space with an
// entry for each state, all 0.
func (r *Ranking[S]) gatherNodes(states, places []int32) (groups [][]fwk.NodeInfo, values []int64) {
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

// stateOrder is the states of fitting nodes that have not been collected yet.
type stateOrder[S comparable] struct {
	*Ranking[S]
	states []int32
	// sorted says that they are in descending order of value.
	sorted bool
}

func (r *Ranking[S]) newOrder() *stateOrder[S] {
	o := &stateOrder[S]{Ranking: r, states: make([]int32, 0, len(r.table.count))}
	for state, nodes := range r.table.count {
		if nodes > 0 && r.values[state] != Unfit {
			o.states = append(o.states, int32(state))
		}
	}
	return o
}

// maxSelected is the number of nodes up to which states are selected from an unsorted list; beyond that they are sorted.
const maxSelected = 64

// nextStates returns the next states, of descending value, with so many nodes together; all states of a value or none.
func (o *stateOrder[S]) nextStates(nodes int) []int32 {
	if !o.sorted && nodes <= maxSelected {
		return o.takeAbove(o.valueThreshold(nodes))
	}
	if !o.sorted {
		slices.SortFunc(o.states, o.compareDescending)
		o.sorted = true
	}
	end, got := 0, 0
	for end < len(o.states) && (got < nodes || o.values[o.states[end]] == o.values[o.states[end-1]]) {
		got += o.table.count[o.states[end]]
		end++
	}
	next := o.states[:end]
	o.states = o.states[end:]
	return next
}

// valueThreshold returns the value of the last of so many nodes, the best ones.
func (o *stateOrder[S]) valueThreshold(nodes int) int64 {
	best := make([]int32, 0, nodes+1)
	for _, state := range o.states {
		if len(best) == nodes && o.values[state] <= o.values[best[nodes-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, state, o.compareDescending)
		best = slices.Insert(best, at, state)
		best = best[:min(len(best), nodes)]
	}
	got := 0
	for _, state := range best {
		if got += o.table.count[state]; got >= nodes {
			return o.values[state]
		}
	}
	return o.values[best[len(best)-1]]
}

// takeAbove removes the states of at least a value, and sorts them.
func (o *stateOrder[S]) takeAbove(value int64) []int32 {
	var above []int32
	rest := o.states[:0]
	for _, state := range o.states {
		if o.values[state] >= value {
			above = append(above, state)
		} else {
			rest = append(rest, state)
		}
	}
	o.states = rest
	slices.SortFunc(above, o.compareDescending)
	return above
}

func (o *stateOrder[S]) compareDescending(a, b int32) int {
	return cmp.Compare(o.values[b], o.values[a])
}
