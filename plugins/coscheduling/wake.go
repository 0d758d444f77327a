package coscheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// This file activates the members of gangs: by the timer of the next attempt, and when siblings get places.

// restPerMember is how long a gang is left alone for each of its members, after a change of its PodGroup activated all of them. It is longer
// than trying them takes.
const restPerMember = 10 * time.Millisecond

// wakeGang makes a planned attempt of a gang, and those that are due with it.
func (p *Plugin) wakeGang(g gang, planned phase.NextAttempt) {
	for _, reason := range p.gangs.takeDue(g, planned) {
		p.attemptFor(g, reason)
	}
}

// attemptFor has a gang tried for a reason.
func (p *Plugin) attemptFor(g gang, reason phase.Reason) {
	group := p.rulesOf(g)
	if group == nil {
		return
	}
	switch {
	case reason == phase.GroupChanged:
		p.groupChanged(nil, group)
	case reason.Audience() == phase.OneMember:
		p.activatePending(g, group, oneMember())
	case reason.Audience() == phase.Representative:
		p.activatePending(g, group, p.IsRepresentative)
	default:
		p.activatePending(g, group, anyMember)
	}
}

// rulesOf returns the PodGroup of a gang, and that of a single pod if it is one; nil if there is none.
func (p *Plugin) rulesOf(g gang) *podgroup.Group {
	if !g.isSinglePod() {
		return p.groups.GetGroup(g.group)
	}
	for _, pod := range p.findSinglePod(g.group) {
		_, group, _ := singlePodGang(pod)
		return group
	}
	return nil
}

func anyMember(*corev1.Pod) bool { return true }

// oneMember chooses the first member only.
func oneMember() func(*corev1.Pod) bool {
	chosen := false
	return func(*corev1.Pod) bool {
		first := !chosen
		chosen = true
		return first
	}
}

// activatePending activates the chosen waiting members of a gang.
func (p *Plugin) activatePending(g gang, group *podgroup.Group, chosen func(*corev1.Pod) bool) {
	waiting := map[string]*corev1.Pod{}
	for _, pod := range p.gangPods(g, group) {
		if gangOf(pod, group) == g && p.placeOf(pod) == placeNone && len(pod.Spec.SchedulingGates) == 0 && chosen(pod) {
			waiting[nameOf(pod).String()] = pod
		}
	}
	if len(waiting) > 0 {
		p.handle.Activate(klog.Background(), waiting)
	}
}

// activateSiblings activates the queued members of a gang.
func (p *Plugin) activateSiblings(pod *corev1.Pod, group *podgroup.Group) {
	siblings := map[string]*corev1.Pod{}
	own := gangOf(pod, group)
	for _, other := range p.gangPods(own, group) {
		if other.UID != pod.UID && gangOf(other, group) == own && p.placeOf(other) == placeNone {
			siblings[nameOf(other).String()] = other
		}
	}
	if len(siblings) > 0 {
		p.handle.Activate(klog.Background(), siblings)
	}
}

// mayActivateAll reports whether all members of a changed PodGroup may be activated, and records that they are. If a PodGroup changes all the
// time, one member of any of its gangs is activated for each change, and all of them after the rest.
func (p *Plugin) mayActivateAll(name types.NamespacedName, members int) (may bool) {
	p.gangs.changeState(gang{group: name}, func(s *phase.Gang) {
		now := p.now()
		if may = !now.Before(s.QueuedBehind()); may {
			s.QueueBehind(now.Add(time.Duration(members) * restPerMember))
		} else {
			s.PlanAttempt(phase.GroupChanged, s.QueuedBehind())
		}
	})
	return may
}
