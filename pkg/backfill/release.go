package backfill

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// Release is a change of reservations by which some nodes are reserved from fewer pods than before.
type Release struct {
	// Nodes are those nodes.
	Nodes         []string
	before, after *ReservationSet
	owner         *StartReservations
	now           time.Time
}

// FreesRoomFor returns which of the nodes may have room for a pod after the change, nil for none: nodes with a reservation that kept it out, and on
// which it fits beside the remaining reservations. A pod that comes first in the queue anyway, or was gone in time, waits for something else.
func (r *Release) FreesRoomFor(pod *corev1.Pod) func(*corev1.Node) bool {
	turn := r.owner.positionOf(pod)
	was := r.before.bindingReservations(pod, turn, r.now) // an expired reservation kept the pod out while it was in force, and its end was not reported
	if len(was) == 0 {
		return nil
	}
	is := r.after.ReservedFrom(pod, turn, r.now)
	return func(node *corev1.Node) bool {
		return slices.ContainsFunc(was, func(promise *StartReservation) bool { return promise.hasNode(node.Name) }) && is.couldFit(node)
	}
}

// hasNode reports whether something of a node is reserved.
func (p *StartReservation) hasNode(node string) bool {
	_, ok := p.Places[node]
	return ok
}

// couldFit reports whether such a pod fits on a node beside what is reserved of it, without other pods.
func (c *ReservedRoom) couldFit(node *corev1.Node) bool {
	if c == nil {
		return true
	}
	for _, promise := range c.reservations {
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

// MakesRoom reports whether a pod that is kept from a node may find room there when another one releases some resources: it lacks some of these
// beside the reservations, and it could fit. The number of pods is not checked: a node takes more pods than it has GPUs for, and each pod that
// ends would activate all waiting ones.
func (c *ReservedRoom) MakesRoom(node *corev1.Node, given []cycle.ResourceRequest) bool {
	if c == nil {
		return false
	}
	return slices.ContainsFunc(c.reservations, func(promise *StartReservation) bool {
		place := promise.Places[node.Name]
		return slices.ContainsFunc(c.asks, func(ask cycle.ResourceRequest) bool {
			return ask.Resource != corev1.ResourcePods && cycle.SumOf(place.Needs, ask.Resource) > 0 && cycle.SumOf(given, ask.Resource) > 0
		})
	}) && c.couldFit(node)
}

// maxSilentDelay is how much a start may be delayed without a notification: pods that were kept out could not use it. Small delays add up.
const maxSilentDelay = time.Minute

// freedNodes returns the nodes that are reserved from fewer pods than before: not at all, or for a later time.
func freedNodes(before, after []*StartReservation) (open []string) {
	for _, old := range before {
		still := (&ReservationSet{reservations: after}).ForJob(old.Job)
		for _, node := range slices.Sorted(maps.Keys(old.Places)) {
			if still == nil || still.At.Sub(old.notifiedStart) > maxSilentDelay || !still.hasNode(node) || !still.barredNamespaces.IsSuperset(old.barredNamespaces) {
				open = append(open, node)
			}
		}
	}
	return open
}

// isTightened reports whether there is a new reservation, or one for an earlier time.
func isTightened(before, after []*StartReservation) bool { return len(freedNodes(after, before)) > 0 }
