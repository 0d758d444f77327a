// Package shortlist lets the scheduler try the few nodes that suit a pod's GPUs best before it tries all the others.
//
// kube-scheduler runs every plugin on every candidate, which costs microseconds a node. Our plugins know at a small
// part of that which candidates are worth most, and where our score outweighs all others together, the pod goes to one
// of those if any of them can take it. So with a short list of them no pod goes to a node of lower score than without
// (among equals, plugins that scale their scores by the nodes given may prefer another), and when none of them will do,
// for want of CPU or for a taint, all nodes are tried as if there had been no list. Where our score leaves no equals, the
// list is one node: the first, in the order of what they are worth, that passes all filters.
//
// One scheduling attempt, and who does what, in this order:
//
//	list := shortlist.Offer(state)          who schedules: I shall try all nodes if need be
//	shortlist.Open(state).Rank = …          GPUScore: this is what nodes are worth to the pod
//	first := shortlist.Open(state).Take(…)  GPUFilter: of the nodes that have the cards, look at the best alone
//	list.InOrder()                          who schedules: which of these passes the filters first?
//	list.Withdraw()                         who schedules: none of them will do, so from the beginning
package shortlist

import (
	"iter"

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
	// Changes tell which of them may have changed. nil do not.
	Changes *cycle.Changes
	// Fits reports whether a node has what the pod asks of its GPUs: by their state alone, so that one answer is for all nodes in it.
	Fits func(fwk.NodeInfo) bool
	// IsOpen reports whether a node is not kept from the pod. nil keeps none.
	IsOpen func(fwk.NodeInfo) bool
}

// List is what is known of the nodes worth trying first, in one scheduling attempt of one pod. It is used by one
// goroutine, that of the scheduling cycle.
type List struct {
	// Rank answers a question.
	Rank func(Question) (Answer, error)

	answer          Answer
	used, withdrawn bool
}

// Answer is which nodes to look at first. The zero value has all nodes looked at.
type Answer struct {
	// Names are those of nodes that fit and are worth most, where other plugins decide between them.
	Names sets.Set[string]
	// InOrder goes through the nodes that fit, the best first, where the pod goes to the first that passes all filters.
	InOrder iter.Seq[fwk.NodeInfo]
}

// IsZero reports whether all nodes are looked at.
func (a *Answer) IsZero() bool { return len(a.Names) == 0 && a.InOrder == nil }

// Take returns which nodes to look at first.
func (l *List) Take(q Question) (Answer, error) {
	if l == nil || l.Rank == nil {
		return Answer{}, nil
	}
	answer, err := l.Rank(q)
	if err != nil {
		return Answer{}, err
	}
	l.answer, l.used = answer, !answer.IsZero()
	return answer, nil
}

// InOrder goes through the nodes to try in order, nil if there is no such order.
func (l *List) InOrder() iter.Seq[fwk.NodeInfo] {
	if l == nil {
		return nil
	}
	return l.answer.InOrder
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
