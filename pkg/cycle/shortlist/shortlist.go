// Package shortlist lets the scheduler try the few nodes that suit a pod's GPUs best before it tries all the others.
//
// kube-scheduler runs every plugin on every candidate, which costs microseconds a node. Our plugins know at a small
// part of that which candidates are worth most, and where our score outweighs all others together, the pod goes to one
// of those if any of them can take it. So with a short list of them no pod goes to a node of lower score than without
// (among equals, plugins that scale their scores by the nodes given may prefer another), and when none of them will do,
// for want of CPU or for a taint, all nodes are tried as if there had been no list.
//
// One scheduling attempt, and who does what, in this order:
//
//	list := shortlist.Offer(state)          who schedules: I shall try all nodes if need be
//	shortlist.Open(state).Rank = …          GPUScore: this is what nodes are worth to the pod
//	names := shortlist.Open(state).Take(…)  GPUFilter: of the nodes that have the cards, look at the best alone
//	list.Withdraw()                         who schedules: none of them will do, so from the beginning
package shortlist

import (
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

const key fwk.StateKey = "Shortlist"

// Candidates are the nodes of a pool and a type. They never change: when the nodes do, there are others.
type Candidates struct {
	// Key is the pool and the types: of those of one key, the last hold.
	Key string
	// Names are those of the nodes, nil for all nodes of the snapshot.
	Names sets.Set[string]
}

// Replaces reports whether candidates hold in place of earlier ones.
func (c *Candidates) Replaces(earlier *Candidates) bool { return c != earlier && c.Key == earlier.Key }

// Question is which of the candidates to try first.
type Question struct {
	Candidates *Candidates
	// Nodes are all nodes of the snapshot.
	Nodes []fwk.NodeInfo
	// Fits reports whether a node has what the pod asks of its GPUs.
	Fits func(fwk.NodeInfo) bool
}

// List is what is known of the nodes worth trying first, in one scheduling attempt of one pod. It is used by one
// goroutine, that of the scheduling cycle.
type List struct {
	// Rank answers with the names of the nodes that fit and are worth most, none to have all nodes looked at.
	Rank func(Question) (sets.Set[string], error)

	used, withdrawn bool
}

// Take returns the names of the nodes to look at, none for all of them.
func (l *List) Take(q Question) (sets.Set[string], error) {
	if l == nil || l.Rank == nil {
		return nil, nil
	}
	names, err := l.Rank(q)
	l.used = len(names) > 0 && err == nil
	return names, err
}

// Clone implements fwk.StateData. A list belongs to one attempt and is shared with its clones.
func (l *List) Clone() fwk.StateData { return l }

// Offer tells the plugins of an attempt that they may narrow the nodes down: whoever offers tries all nodes if none of
// the narrow choice can take the pod.
func Offer(cs fwk.CycleState) *List {
	l := &List{}
	cs.Write(key, l)
	return l
}

// Open returns the list that is on offer, nil if there is none.
func Open(cs fwk.CycleState) *List {
	l, err := cycle.Read[*List](cs, key)
	if err != nil || l.withdrawn {
		return nil
	}
	return l
}

// Repeated reports whether the attempt is the second one of a pod, after a list that was no good.
func Repeated(cs fwk.CycleState) bool {
	l, err := cycle.Read[*List](cs, key)
	return err == nil && l.withdrawn
}

// Used reports whether the attempt was narrowed down, now or before the offer was withdrawn.
func (l *List) Used() bool { return l != nil && l.used }

// Withdraw ends the offer: the attempt is repeated with all nodes.
func (l *List) Withdraw() { l.withdrawn = true }
