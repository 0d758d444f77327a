package coscheduling

import (
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// maxExit bounds how long a gang waits for the GPUs of a member of its own that still ends, however long its grace period is.
const maxExit = 30 * time.Second

// leavingMember is a member that was lost, and still ends on a node where it may be made again.
type leavingMember struct {
	name  types.NamespacedName
	until time.Time
}

// noteLostMember records that a gang has lost a member, whatever took it: preemption, an eviction, a taint, its user or its node. If fewer remain
// than it needs, the gang counts as partially bound from now on.
//
// A member that has ended by itself is not lost. kube-scheduler's informer leaves ended pods out, so such a member is reported as deleted, with its
// last state before; nothing was about to delete it.
func (p *Plugin) noteLostMember(g gang, pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil && !wasPreempted(pod) {
		return
	}
	needs := math.MaxInt // the size that it had when it was whole decides
	if group := p.groups.getGroup(g.group); unusableReason(group) == "" {
		needs = group.minMember
	} else if !p.gangs.stateOf(g).WasWhole() {
		return
	}
	var isHalf bool
	p.gangs.changeKnown(g, func(s *phase.Gang) { isHalf = s.RecordLostMember(needs) })
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if !isHalf || err != nil || pod.DeletionTimestamp == nil || wasPreempted(pod) || !isOpenTo(node, pod) {
		return
	}
	now, until := p.now(), pod.DeletionTimestamp.Time
	if latest := now.Add(maxExit); until.After(latest) {
		until = latest
	}
	if until.After(now) {
		p.gangs.addLeaving(g, pod.UID, leavingMember{name: nameOf(pod), until: until})
	}
}

// awaitsOwnMembers reports whether a member that a gang has lost still ends: the one that is made again may take its place.
func (p *Plugin) awaitsOwnMembers(g gang, now time.Time) bool {
	for uid, member := range p.gangs.takeLeaving(g, now) {
		object, found, err := p.pods.GetByKey(member.name.String())
		if pod, ok := object.(*corev1.Pod); err == nil && found && ok && pod.UID == uid {
			return true
		}
	}
	return false
}

// isHalfForTooLong reports whether a gang, of which a member enters the queue, has been partially bound for as long as it may be: the member is
// tried then, although others are still to come. The time begins with the first member that is made again.
func (p *Plugin) isHalfForTooLong(g gang) bool {
	now := p.now()
	if !p.gangs.stateOf(g).IsPartial() || now.IsZero() {
		return false
	}
	var since time.Time
	p.gangs.changeState(g, func(s *phase.Gang) {
		if since = s.BeginPartial(now); since.Equal(now) {
			s.PlanAttempt(phase.BoundInPart, now.Add(completeWithin))
		}
	})
	return now.Sub(since) >= completeWithin
}

// addLeaving records a lost member that still ends. The gang is tried when the last of them has had its time.
func (r *gangs) addLeaving(g gang, pod types.UID, member leavingMember) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applyChange(g, r.ensureState(g), func(s *gangState) {
		if s.leaving == nil {
			s.leaving = map[types.UID]leavingMember{}
		}
		s.leaving[pod] = member
		last := member.until
		for _, other := range s.leaving {
			if other.until.After(last) {
				last = other.until
			}
		}
		s.PlanAttempt(phase.MemberEnds, last)
	})
}

// takeLeaving forgets the lost members of a gang whose time to end is over, and returns the others.
func (r *gangs) takeLeaving(g gang, now time.Time) map[types.UID]leavingMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok {
		return nil
	}
	maps.DeleteFunc(s.leaving, func(_ types.UID, member leavingMember) bool { return !now.Before(member.until) })
	return maps.Clone(s.leaving)
}
