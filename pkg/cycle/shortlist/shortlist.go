// Package shortlist lets the scheduler try the few nodes that suit a pod's GPUs best before all others.
//
// kube-scheduler runs every plugin on every candidate, which costs microseconds a node. Our plugins find the best candidates at a small part of
// that, and if our score outweighs all others together, the pod goes to one of those if any of them can take it. So with a short list no pod
// goes to a node of lower score than without (among equals, plugins that scale their scores by the given nodes may prefer another), and if none
// of them can take the pod, for lack of CPU or because of a taint, all nodes are tried as if there had been no list. If our score leaves no
// equal nodes, the list is one node: the first, by rank, that passes all filters.
//
// One scheduling attempt, in this order:
//
//	list := shortlist.Offer(state)          scheduler: I shall try all nodes if necessary
//	shortlist.Open(state).Rank = …          GPUScore: this is the ranking for the pod
//	first := shortlist.Open(state).Take(…)  GPUFilter: of the nodes that have the GPUs, try only the best
//	list.InOrder()                          scheduler: which of these passes the filters first?
//	list.Withdraw()                         scheduler: none of them does, so start over
package shortlist

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

const key fwk.StateKey = "Shortlist"

// Candidates are the nodes of a pool and a type. They never change: when the nodes do, new candidates are created.
type Candidates struct {
	// Key is the pool and the types. The last candidates with a key are valid.
	Key string
	// Names are those of the nodes, nil for all nodes of the snapshot.
	Names sets.Set[string]
}

// Replaces reports whether candidates replace earlier ones.
func (c *Candidates) Replaces(earlier *Candidates) bool { return c != earlier && c.Key == earlier.Key }

// Question is which of the candidates to try first.
type Question struct {
	Candidates *Candidates
	// Nodes are all nodes of the snapshot.
	Nodes []fwk.NodeInfo
	// Changes record which of them may have changed. It may be nil.
	Changes *cycle.Changes
	// Fits reports whether a node has the GPUs for the pod, based on its state alone, so that one answer holds for all nodes in that state.
	Fits func(fwk.NodeInfo) bool
	// IsOpen reports whether a node is not reserved for others. nil accepts all.
	IsOpen func(fwk.NodeInfo) bool
}

// List is the ranking of the nodes to try first, in one scheduling attempt of one pod. Only the goroutine of the scheduling cycle uses it.
type List struct {
	// Rank answers a question.
	Rank func(Question) (Answer, error)

	answer              Answer
	isUsed, isWithdrawn bool
}

// Answer is which nodes to try first. The zero value stands for all nodes.
type Answer struct {
	// Names are the best nodes that fit, if other plugins decide between them.
	Names sets.Set[string]
	// InOrder iterates over the nodes that fit, the best first, if the pod goes to the first that passes all filters.
	InOrder iter.Seq[fwk.NodeInfo]
}

// IsZero reports whether all nodes are to be tried.
func (a *Answer) IsZero() bool { return len(a.Names) == 0 && a.InOrder == nil }

// FirstNodes returns which nodes to try first.
func (l *List) FirstNodes(q Question) (Answer, error) {
	if l == nil || l.Rank == nil {
		return Answer{}, nil
	}
	answer, err := l.Rank(q)
	if err != nil {
		return Answer{}, err
	}
	l.answer, l.isUsed = answer, !answer.IsZero()
	return answer, nil
}

// InOrder iterates over the nodes to try in order, nil if there is no such order.
func (l *List) InOrder() iter.Seq[fwk.NodeInfo] {
	if l == nil {
		return nil
	}
	return l.answer.InOrder
}

// Clone implements fwk.StateData. A list belongs to one attempt and is shared with its clones.
func (l *List) Clone() fwk.StateData { return l }

// Offer lets the plugins of an attempt narrow the nodes down: the caller tries all nodes if none of the narrow choice can take the pod.
func Offer(cs fwk.CycleState) *List {
	l := &List{}
	cs.Write(key, l)
	return l
}

// Open returns the offered list, nil if there is none.
func Open(cs fwk.CycleState) *List {
	l, err := cycle.Read[*List](cs, key)
	if err != nil || l.isWithdrawn {
		return nil
	}
	return l
}

// IsRepeated reports whether this is the second attempt of a pod, after a list without success.
func IsRepeated(cs fwk.CycleState) bool {
	l, err := cycle.Read[*List](cs, key)
	return err == nil && l.isWithdrawn
}

// IsUsed reports whether the attempt was narrowed down, now or before the offer was withdrawn.
func (l *List) IsUsed() bool { return l != nil && l.isUsed }

// Withdraw ends the offer: the attempt is repeated with all nodes.
func (l *List) Withdraw() { l.isWithdrawn = true }
