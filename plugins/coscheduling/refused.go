package coscheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
)

// RecordRefusal records that a plugin or the API server refused a pod after a node was found for it, and why, as [Plugin.RecordLostPlace] does. The
// bound members of its gang end if that goes on.
func (p *Plugin) RecordRefusal(was *corev1.Pod, words string) (told string) {
	return p.recordLostPlace(was, words, true)
}

// RecordLostPlace records that a pod lost its place after a node was found for it, and why. It may lose the next place as well. So its gang, or the
// single pod, evicts nothing for a minute, then for two, and so on up to an hour. The bound members of its gang stay: the cause may be an accident,
// such as a webhook that does not answer. It returns the message for the pod, by which the next leader knows, "" for none.
func (p *Plugin) RecordLostPlace(was *corev1.Pod, words string) (told string) {
	return p.recordLostPlace(was, words, false)
}

func (p *Plugin) recordLostPlace(was *corev1.Pod, words string, isRefused bool) (told string) {
	pod := p.livePod(nameOf(was), was.UID)
	if pod == nil || pod.Spec.NodeName != "" {
		return ""
	}
	defer p.forgetIfGone(pod)
	g, group, m := p.gangWith(pod)
	if group == nil {
		return ""
	}
	p.restoreBackoff(g, pod)
	p.gangs.changeState(g, func(s *phase.Gang) {
		var until time.Time
		until, told = s.RecordLostPlace(pod.UID, rejection.ShortenText(words), p.now())
		s.PlanAttempt(phase.PlaceLost, until)
	})
	if isRefused && !g.isSinglePod() {
		p.gangs.changeKnown(g, func(s *phase.Gang) { s.RecordRefusal(p.now()) })
		p.releasePartialGang(g, group, &m, pod)
	}
	return told
}

// RecordRejection records that a member lost its place because another member did, or because the others did not arrive in time.
func (p *Plugin) RecordRejection(pod *corev1.Pod) {
	if g, group, _ := p.gangWith(pod); group != nil && !g.isSinglePod() {
		p.gangs.changeKnown(g, func(s *phase.Gang) { s.BackOffPreemption(p.now()) })
	}
}

// gangWith returns the gang of a pod, or the pod as a gang of one. It returns none if the PodGroup is unusable.
func (p *Plugin) gangWith(pod *corev1.Pod) (gang, *podgroup.Group, placement.Members) {
	name, ok := p.groups.GroupOf(pod)
	if !ok {
		p.tracksSinglePods.Store(true)
		return singlePodGang(pod)
	}
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" {
		return gang{}, nil, placement.Members{}
	}
	return gangOf(pod, group), group, p.membersOf(pod, group)
}

// refusedBefore replaces a refusal where PostFilter quotes it.
const refusedBefore = "its last place was refused"

// lostPlaceReason returns why a pod evicts nothing after it, or another pod of its gang, lost its last place, "" if that is not so.
func (p *Plugin) lostPlaceReason(pod *corev1.Pod) string {
	g, group, _ := singlePodGang(pod)
	if name, ok := p.groups.GroupOf(pod); ok {
		if group = p.groups.GetGroup(name); group.UnusableReason() != "" {
			return ""
		}
		g = gangOf(pod, group)
	}
	p.restoreBackoff(g, pod)
	why := p.gangs.stateOf(g).LostPlaceReason(p.now())
	if why != "" && !g.isSinglePod() && !p.gangs.isComplete(g, group.MinMember) {
		return refusedBefore
	}
	return why
}

// restoreBackoff restores the backoff that an earlier leader wrote on pods of a gang.
func (p *Plugin) restoreBackoff(g gang, pods ...*corev1.Pod) {
	for _, pod := range pods {
		backoff, words, ok := rejection.ReadRefusal(pod)
		if !ok || !backoff.Until.After(p.now()) {
			continue
		}
		if g.isSinglePod() {
			p.tracksSinglePods.Store(true)
		}
		p.gangs.changeState(g, func(s *phase.Gang) { s.RestoreBackoff(pod.UID, backoff, words) })
	}
}

// handleRevision shortens the backoff of a refused pod to one minute when its owner changes it: it may be accepted now. The backoff does not end at
// once, or a constantly changing pod would evict others all the time.
func (p *Plugin) handleRevision(before, after *corev1.Pod) {
	if before == nil || after == nil || after.Spec.NodeName != "" || rejection.IsSameToPolicies(before, after) {
		return
	}
	g, group, _ := singlePodGang(after)
	if name, ok := p.groups.GroupOf(after); ok {
		if group = p.groups.GetGroup(name); group.UnusableReason() != "" {
			return
		}
		g = gangOf(after, group)
	}
	p.gangs.changeKnown(g, func(s *phase.Gang) {
		if until := s.ShortenBackoff(after.UID); until.After(p.now()) {
			s.PlanAttempt(phase.PlaceLost, until)
		}
	})
}
