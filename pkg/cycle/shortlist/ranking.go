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

// unjudged is the value of a state that nobody has asked for yet.
const unjudged int64 = -2

// Bounds of what is remembered.
const (
	// maxKinds bounds the kinds of pods. A cluster has some dozen at a time, or a hundred where each request differs.
	maxKinds = 512
	// maxValues bounds the values of all kinds together, at 8 bytes each: 16 MiB.
	maxValues = 1 << 21
	// maxFollowed bounds the nodes that are followed of all candidates together, at some 30 bytes each: 16 MiB.
	maxFollowed = 1 << 19
)

// Kind tells apart pods that a candidate is not worth the same to, and knows which kinds come no more.
type Kind[K any] interface {
	comparable
	// Ends reports whether no more pods of another kind will come, now that there is one of this.
	Ends(other K) bool
}

// Rankings remembers a [Ranking] for each kind of pod, those asked for last. It holds on to nothing that is out of date:
// neither nodes of an earlier snapshot nor kinds that have ended. The zero value is empty. It is used by one goroutine.
//
// S is the state of a node: all that a value depends on. What a kind is worth is found out once for each state that there
// is, since thousands of nodes are in a few dozen states, and a new kind of pod would otherwise cost a look at each node.
type Rankings[K Kind[K], S comparable] struct {
	known  map[K]*Ranking[S]
	tables map[*Candidates]*table[S]
	// all are the nodes of the snapshot that the rankings are of. kube-scheduler makes another list whenever a node comes
	// or goes.
	all   []fwk.NodeInfo
	asked int64
}

// Lister finds a node of the snapshot.
type Lister interface {
	Get(name string) (fwk.NodeInfo, error)
}

// Of returns what is remembered for pods of a kind, with the nodes in the state that they are in now. A kind should name
// its candidates, and what else changes a value.
func (k *Rankings[K, S]) Of(kind K, q Question, lister Lister, stateOf func(fwk.NodeInfo) S) *Ranking[S] {
	k.asked++
	if k.known == nil || !cycle.SameNodes(k.all, q.Nodes) {
		*k = Rankings[K, S]{known: map[K]*Ranking[S]{}, tables: map[*Candidates]*table[S]{}, all: q.Nodes, asked: k.asked}
	}
	r := k.known[kind]
	if r == nil {
		k.makeRoom(kind)
		r = &Ranking[S]{table: k.tableOf(q, lister)}
		k.known[kind] = r
	}
	r.asked = k.asked
	r.table.update(q.Changes, stateOf)
	return r
}

// makeRoom forgets the kinds that have ended, and those asked for least recently until there is room for a new one.
func (k *Rankings[K, S]) makeRoom(kind K) {
	values := 0
	for other, r := range k.known {
		if kind.Ends(other) {
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

// tableOf returns the table of candidates. Those that no kind is of any more are forgotten, and all when they are too many.
func (k *Rankings[K, S]) tableOf(q Question, lister Lister) *table[S] {
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

// Ranking is what the candidates are worth to pods of one kind. Looking again costs a comparison a node, and a
// judgement for each state that no node was in before: a scheduling cycle changes one node.
type Ranking[S comparable] struct {
	table  *table[S]
	values []int64 // by the number of a state
	// renumbered is that of the table when the values were found.
	renumbered int
	asked      int64 // when, counted in questions
}

// Update judges the states that no node was in the last time. It asks about one node of each.
func (r *Ranking[S]) Update(worth func(S, fwk.NodeInfo) int64) {
	t := r.table
	if r.renumbered != t.renumbered {
		r.values, r.renumbered = r.values[:0], t.renumbered
	}
	r.values = slices.Grow(r.values, len(t.count)-len(r.values))
	for len(r.values) < len(t.count) {
		r.values = append(r.values, unjudged)
	}
	if !r.lacks() {
		return
	}
	for i, number := range t.states {
		if r.values[number] == unjudged {
			r.values[number] = worth(t.named[number], t.nodes[i])
		}
	}
}

// lacks reports whether a node is in a state that has not been judged. A state may have been without nodes so far.
func (r *Ranking[S]) lacks() bool {
	for number, nodes := range r.table.count {
		if nodes > 0 && r.values[number] == unjudged {
			return true
		}
	}
	return false
}

// Fit returns how many of the nodes can take the pod.
func (r *Ranking[S]) Fit() int {
	fit := 0
	for state, nodes := range r.table.count {
		if nodes > 0 && r.values[state] != Unfit {
			fit += nodes
		}
	}
	return fit
}

// Highest returns the highest value of any node, Unfit if none can take the pod.
func (r *Ranking[S]) Highest() int64 {
	highest := Unfit
	for state, nodes := range r.table.count {
		if nodes > 0 {
			highest = max(highest, r.values[state])
		}
	}
	return highest
}

// Fitting goes through the nodes that can take the pod, in order of name. Positions are those among all candidates, which
// stay the same as long as the candidates do.
func (r *Ranking[S]) Fitting() iter.Seq2[int, fwk.NodeInfo] {
	return func(yield func(int, fwk.NodeInfo) bool) {
		for i, state := range r.table.states {
			if r.values[state] != Unfit && !yield(i, r.table.nodes[i]) {
				return
			}
		}
	}
}

// Best returns the nodes of the highest values that suit, at most count of them, the best first and equal ones by name.
// nil suits all.
func (r *Ranking[S]) Best(count int, suits func(fwk.NodeInfo) bool) []fwk.NodeInfo {
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

// InOrder goes through the nodes that can take the pod and suit, the best first and equal ones by name.
func (r *Ranking[S]) InOrder(likely int, suits func(fwk.NodeInfo) bool) iter.Seq[fwk.NodeInfo] {
	return func(yield func(fwk.NodeInfo) bool) {
		// Of the highest value may be thousands, of which one of the first few will do: they are not gathered.
		highest := r.Highest()
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

// Sparing goes through the nodes as InOrder does, and of equal ones last through those to be spared.
func (r *Ranking[S]) Sparing(likely int, suits, spared func(fwk.NodeInfo) bool) iter.Seq[fwk.NodeInfo] {
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

// Ties say what to try first where other plugins decide between equals.
type Ties struct {
	// Size is how many nodes there is room for, also of lower values, and Most how many of the highest value at most.
	Size, Most int
	// Turn decides which of more than so many equals.
	Turn uint64
}

// First returns the nodes to try first: of those that suit, all of the highest value, or as many as ties allow, spread
// over their names and zones; and those of lower values as long as that makes no more nodes than there is room for. Equals stay
// together otherwise, since other plugins decide among them. It also returns the highest value of any of them.
func (r *Ranking[S]) First(ties Ties, suits func(fwk.NodeInfo) bool) (first []fwk.NodeInfo, highest int64) {
	highest = Unfit
	for equals, value := range r.byValue(1) {
		suiting := ties.some(equals, suits)
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

// some returns those of equals that suit, at most as many as ties allow: spread over the list.
func (t *Ties) some(equals []fwk.NodeInfo, suits func(fwk.NodeInfo) bool) []fwk.NodeInfo {
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

// strideOver is a step by which each of so many places is reached once, and any number of them lie evenly: by the golden section. No zone is
// left out, whether nodes are named one zone after the other or in turn, as it would be by every tenth name where there are five zones in turn.
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
