package backfill

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// Release is a change of what was promised by which some nodes are kept from fewer pods than before.
type Release struct {
	// Nodes are those nodes.
	Nodes         []string
	before, after *Book
	of            *Promises
	now           time.Time
}

// Helps says which of the nodes may have room for a pod by that, nil for none: nodes on which something was promised that kept it
// out, and with what is promised there still it could be there. Who comes first in line anyway, or was gone in time, waits for
// something else.
func (r *Release) Helps(pod *corev1.Pod) func(*corev1.Node) bool {
	turn := r.of.turnOf(pod)
	was := r.before.binding(pod, turn, r.now) // one that counts no more kept it out while it did, and nobody was told of that
	if len(was) == 0 {
		return nil
	}
	is := r.after.Against(pod, turn, r.now)
	return func(node *corev1.Node) bool {
		return slices.ContainsFunc(was, func(promise *Promise) bool { return promise.has(node.Name) }) && is.couldFit(node)
	}
}

// has reports whether something of a node was promised.
func (p *Promise) has(node string) bool {
	_, ok := p.Places[node]
	return ok
}

// couldFit reports whether such a pod could be on a node beside what was promised of it, were nobody else there.
func (c *Closed) couldFit(node *corev1.Node) bool {
	if c == nil {
		return true
	}
	for _, promise := range c.promises {
		place := promise.Places[node.Name]
		for _, ask := range c.asks {
			need := cycle.SumOf(place.Needs, ask.Resource)
			if need > 0 && cycle.OfferedBy(node, ask.Resource)-need < ask.Amount {
				return false
			}
		}
	}
	return true
}

// MakesRoom reports whether a pod that is kept from a node may find room there as another one gives back some of what it held: it
// lacks some of that beside what was promised, and it could be there. How many pods there are is not looked at: a node takes more
// than it has cards for, and each that leaves would have all tried.
func (c *Closed) MakesRoom(node *corev1.Node, given []cycle.Ask) bool {
	if c == nil {
		return false
	}
	return slices.ContainsFunc(c.promises, func(promise *Promise) bool {
		place := promise.Places[node.Name]
		return slices.ContainsFunc(c.asks, func(ask cycle.Ask) bool {
			return ask.Resource != corev1.ResourcePods && cycle.SumOf(place.Needs, ask.Resource) > 0 && cycle.SumOf(given, ask.Resource) > 0
		})
	}) && c.couldFit(node)
}

// slip is how much later a start may be that nobody is told of: who was refused could not use it. What is added to it bit by bit
// counts together.
const slip = time.Minute

// loosened are the nodes that are kept from fewer than before: not at all, or until later.
func loosened(before, after []*Promise) (open []string) {
	for _, old := range before {
		still := (&Book{promises: after}).Of(old.Job)
		for _, node := range slices.Sorted(maps.Keys(old.Places)) {
			if still == nil || still.At.Sub(old.told) > slip || !still.has(node) || !still.barred.IsSuperset(old.barred) {
				open = append(open, node)
			}
		}
	}
	return open
}

// tightened reports whether something is promised that was not before, or from an earlier time on.
func tightened(before, after []*Promise) bool { return len(loosened(after, before)) > 0 }
