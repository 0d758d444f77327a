package shortlist

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// Unfit is the value of a node that cannot take the pod. All other values are 0 or more.
const Unfit int64 = -1

// valueUnknown is the value of a state that has not been evaluated yet.
const valueUnknown int64 = -2

// Bounds of what is remembered.
const (
	// maxKinds bounds the kinds of pods. A cluster has some dozen at a time, or a hundred where each request differs.
	maxKinds = 512
	// maxValues bounds the values of all kinds together, at 8 bytes each: 16 MiB.
	maxValues = 1 << 21
	// maxFollowed bounds the tracked nodes of all candidates together, at some 30 bytes each: 16 MiB.
	maxFollowed = 1 << 19
)

// Kind identifies pods for which a candidate has the same value, and determines which kinds are outdated.
type Kind[K any] interface {
	comparable
	// Supersedes reports whether no more pods of another kind will come, now that there is one of this kind.
	Supersedes(other K) bool
}

// Rankings caches a [Ranking] for each kind of pod, the most recently used ones. It keeps nothing outdated: neither nodes of an earlier snapshot
// nor superseded kinds. The zero value is empty. Only one goroutine uses it.
//
// S is the state of a node: everything that a value depends on. The value for a kind is computed once for each state, since thousands of nodes
// are in a few dozen states, and a new kind of pod would otherwise cost a look at each node.
type Rankings[K Kind[K], S comparable] struct {
	known  map[K]*Ranking[S]
	tables map[*Candidates]*table[S]
	// all are the nodes of the ranked snapshot. kube-scheduler creates another list whenever a node is added or removed.
	all   []fwk.NodeInfo
	asked int64
}

// Lister finds a node of the snapshot.
type Lister interface {
	Get(name string) (fwk.NodeInfo, error)
}

// RankingFor returns the ranking for pods of a kind, with the current states of the nodes. A kind should include its candidates, and everything else
// that changes a value.
func (k *Rankings[K, S]) RankingFor(kind K, q Question, lister Lister, stateOf func(fwk.NodeInfo) S) *Ranking[S] {
	k.asked++
	if k.known == nil || !cycle.SameNodes(k.all, q.Nodes) {
		*k = Rankings[K, S]{known: map[K]*Ranking[S]{}, tables: map[*Candidates]*table[S]{}, all: q.Nodes, asked: k.asked}
	}
	r := k.known[kind]
	if r == nil {
		k.evictKinds(kind)
		r = &Ranking[S]{table: k.tableFor(q, lister)}
		k.known[kind] = r
	}
	r.asked = k.asked
	r.table.updateStates(q.Changes, stateOf)
	return r
}

// evictKinds drops superseded kinds, and then the least recently used ones until there is room for a new one.
func (k *Rankings[K, S]) evictKinds(kind K) {
	values := 0
	for other, r := range k.known {
		if kind.Supersedes(other) {
			delete(k.known, other)
			continue
		}
		values += len(r.values)
	}
	for len(k.known) > 0 && (len(k.known) >= maxKinds || values > maxValues) {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.known)), func(a, b K) int {
			return cmp.Compare(k.known[a].asked, k.known[b].asked)
		})
		values -= len(k.known[oldest].values)
		delete(k.known, oldest)
	}
}

// tableFor returns the table of candidates. Unused tables are dropped, and all of them if they are too many.
func (k *Rankings[K, S]) tableFor(q Question, lister Lister) *table[S] {
	if t := k.tables[q.Candidates]; t != nil {
		return t
	}
	used, followed := map[*table[S]]bool{}, 0
	for _, r := range k.known {
		used[r.table] = true
	}
	for candidates, t := range k.tables {
		if !used[t] {
			delete(k.tables, candidates)
		} else {
			followed += len(t.nodes)
		}
	}
	if followed > maxFollowed {
		clear(k.tables)
		clear(k.known)
	}
	t := newTable[S](q, lister)
	k.tables[q.Candidates] = t
	return t
}

// Ranking is the value of the candidates for pods of one kind. An update costs a comparison a node, and an evaluation for each state without
// nodes so far: a scheduling cycle changes one node.
type Ranking[S comparable] struct {
	table  *table[S]
	values []int64 // by the number of a state
	// renumbered is that of the table when the values were computed.
	renumbered int
	asked      int64 // when, counted in questions
}

// UpdateValues evaluates the states that had no nodes at the last update. It calls worth for one node of each.
func (r *Ranking[S]) UpdateValues(worth func(S, fwk.NodeInfo) int64) {
	t := r.table
	if r.renumbered != t.renumbered {
		r.values, r.renumbered = r.values[:0], t.renumbered
	}
	r.values = slices.Grow(r.values, len(t.count)-len(r.values))
	for len(r.values) < len(t.count) {
		r.values = append(r.values, valueUnknown)
	}
	if !r.lacksValues() {
		return
	}
	for i, number := range t.states {
		if r.values[number] == valueUnknown {
			r.values[number] = worth(t.named[number], t.nodes[i])
		}
	}
}

// lacksValues reports whether a node is in a state without a value. A state may have had no nodes so far.
func (r *Ranking[S]) lacksValues() bool {
	for number, nodes := range r.table.count {
		if nodes > 0 && r.values[number] == valueUnknown {
			return true
		}
	}
	return false
}

// CountFitting returns how many of the nodes can take the pod.
func (r *Ranking[S]) CountFitting() int {
	fit := 0
	for state, nodes := range r.table.count {
		if nodes > 0 && r.values[state] != Unfit {
			fit += nodes
		}
	}
	return fit
}

// HighestValue returns the highest value of any node, Unfit if none can take the pod.
func (r *Ranking[S]) HighestValue() int64 {
	highest := Unfit
	for state, nodes := range r.table.count {
		if nodes > 0 {
			highest = max(highest, r.values[state])
		}
	}
	return highest
}

// FittingNodes iterates over the nodes that can take the pod, in order of name. Positions are those among all candidates, which are stable as long as
// the candidates are.
func (r *Ranking[S]) FittingNodes() iter.Seq2[int, fwk.NodeInfo] {
	return func(yield func(int, fwk.NodeInfo) bool) {
		for i, state := range r.table.states {
			if r.values[state] != Unfit && !yield(i, r.table.nodes[i]) {
				return
			}
		}
	}
}

// BestNodes returns the suitable nodes of the highest values, at most count, the best first and equal ones by name. nil accepts all.
func (r *Ranking[S]) BestNodes(count int, suits func(fwk.NodeInfo) bool) []fwk.NodeInfo {
	best := make([]fwk.NodeInfo, 0, count)
	for nodes := range r.byValue(count) {
		for _, node := range nodes {
			if len(best) == count {
				return best
			}
			if suits == nil || suits(node) {
				best = append(best, node)
			}
		}
	}
	return best
}

// InOrder iterates over the suitable nodes that can take the pod, the best first and equal ones by name.
func (r *Ranking[S]) InOrder(likely int, suits func(fwk.NodeInfo) bool) iter.Seq[fwk.NodeInfo] {
	return func(yield func(fwk.NodeInfo) bool) {
		// Thousands of nodes may have the highest value, of which one of the first few is enough, so they are not collected.
		highest := r.HighestValue()
		for i, state := range r.table.states {
			if r.values[state] == highest && highest != Unfit && suits(r.table.nodes[i]) && !yield(r.table.nodes[i]) {
				return
			}
		}
		for nodes, value := range r.byValue(likely) {
			if value == highest {
				continue
			}
			for _, node := range nodes {
				if suits(node) && !yield(node) {
					return
				}
			}
		}
	}
}

// InOrderSparing iterates over the nodes as InOrder does, with spared nodes last among equals.
func (r *Ranking[S]) InOrderSparing(likely int, suits, spared func(fwk.NodeInfo) bool) iter.Seq[fwk.NodeInfo] {
	return func(yield func(fwk.NodeInfo) bool) {
		for equals := range r.byValue(likely) {
			var last []fwk.NodeInfo
			for _, node := range equals {
				switch {
				case !suits(node):
				case spared(node):
					last = append(last, node)
				case !yield(node):
					return
				}
			}
			for _, node := range last {
				if !yield(node) {
					return
				}
			}
		}
	}
}

// Ties define what to try first if other plugins decide between equal nodes.
type Ties struct {
	// Size is the number of nodes, including those of lower values, and Most the maximum number of nodes of the highest value.
	Size, Most int
	// Turn selects among more equal nodes than that.
	Turn uint64
}

// FirstNodes returns the nodes to try first: the suitable nodes of the highest value, up to Most, spread over their names and zones; and those of
// lower values as long as the total does not exceed Size. Otherwise equal nodes stay together, since other plugins decide among them. It also
// returns the highest value of any of them.
func (r *Ranking[S]) FirstNodes(ties Ties, suits func(fwk.NodeInfo) bool) (first []fwk.NodeInfo, highest int64) {
	highest = Unfit
	for equals, value := range r.byValue(1) {
		suiting := ties.selectTied(equals, suits)
		if len(first) > 0 && len(first)+len(suiting) > ties.Size {
			break
		}
		first = append(first, suiting...)
		if highest == Unfit && len(first) > 0 {
			highest = value
		}
	}
	return first, highest
}

// selectTied returns the suitable ones of equal nodes, up to Most: spread over the list.
func (t *Ties) selectTied(equals []fwk.NodeInfo, suits func(fwk.NodeInfo) bool) []fwk.NodeInfo {
	var some []fwk.NodeInfo
	at, step := 0, 1
	if len(equals) > t.Most {
		at, step = int(t.Turn%uint64(len(equals))), strideOver(len(equals))
	}
	for range equals {
		if len(some) == t.Most {
			break
		}
		if node := equals[at]; suits == nil || suits(node) {
			some = append(some, node)
		}
		at = (at + step) % len(equals)
	}
	return some
}

// strideOver returns a step that reaches each of so many places once and spreads any number of steps evenly, by the golden section. So no zone
// is left out, whether nodes are named zone by zone or in turn, as every tenth name would with five zones in turn.
func strideOver(places int) int {
	step := int(math.Round(float64(places) / math.Phi))
	for !areCoprime(step, places) {
		step++
	}
	return step
}

func areCoprime(a, b int) bool {
	for b != 0 {
		a, b = b, a%b
	}
	return a == 1
}
