package coscheduling

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// lostPlace is the pod of a gang, or the single pod, that last lost its place after a node was found for it: another plugin rejected it at
// Reserve, Permit or PreBind, or the API server refused its Binding. until is how long nothing starts of a gang that was released for it.
type lostPlace struct {
	pod   types.UID
	until time.Time
}

// maxRefusalBytes is how much of a refusal is repeated on the pod, in bytes.
const maxRefusalBytes = 300

// RecordRefusal records that a pod lost its place after a node was found for it, and why, in the words of the refusal. It would lose the next
// place as well. So its gang, or the single pod, evicts nothing for a minute, then for two, and so on up to an hour. It returns the message for
// the pod, by which the next leader knows, "" for none.
func (p *Plugin) RecordRefusal(was *corev1.Pod, words string) string {
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
	until, told := p.gangStates.recordLostPlace(g, pod.UID, shortenText(words), p.now())
	p.activateAt(g, group, until, p.IsRepresentative)
	if !g.isSinglePod() {
		p.releasePartialGang(g, group, &m, pod)
	}
	return told
}

// RecordRejection records that a member lost its place because another member did, or because the others did not arrive in time.
func (p *Plugin) RecordRejection(pod *corev1.Pod) {
	if g, group, _ := p.gangWith(pod); group != nil && !g.isSinglePod() {
		p.gangStates.backOffPreemption(g, p.now())
	}
}

// gangWith returns the gang of a pod, or the pod as a gang of one. It returns none if the PodGroup is unusable.
func (p *Plugin) gangWith(pod *corev1.Pod) (gang, *podGroup, members) {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		p.tracksSinglePods.Store(true)
		return singlePodGang(pod)
	}
	group := p.groups.getGroup(name)
	if unusableReason(group) != "" {
		return gang{}, nil, members{}
	}
	return gangOf(pod, group), group, p.membersOf(pod, group)
}

// refusedBefore replaces a refusal where PostFilter quotes it.
const refusedBefore = "its last place was refused"

// lostPlaceReason returns why a pod evicts nothing after it, or another pod of its gang, lost its last place, "" if that is not so.
func (p *Plugin) lostPlaceReason(pod *corev1.Pod) string {
	g, group, _ := singlePodGang(pod)
	if name, ok := p.groups.groupOf(pod); ok {
		if group = p.groups.getGroup(name); unusableReason(group) != "" {
			return ""
		}
		g = gangOf(pod, group)
	}
	p.restoreBackoff(g, pod)
	why := p.gangStates.lostPlaceReason(g, p.now())
	if why != "" && !g.isSinglePod() && !p.gangStates.isComplete(g, group.minMember) {
		return refusedBefore
	}
	return why
}

// restoreBackoff restores the backoff that an earlier leader wrote on pods of a gang.
func (p *Plugin) restoreBackoff(g gang, pods ...*corev1.Pod) {
	for _, pod := range pods {
		until, long, words, ok := refusalOn(pod)
		if !ok || !until.After(p.now()) {
			continue
		}
		if g.isSinglePod() {
			p.tracksSinglePods.Store(true)
		}
		p.gangStates.restoreBackoff(g, pod.UID, until, long, words)
	}
}

// refusalOn parses the refusal that a leader wrote on a pod: the end and the duration of its backoff, and the reason.
func refusalOn(pod *corev1.Pod) (until time.Time, long time.Duration, words string, ok bool) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue {
			continue
		}
		values, found := reason.PlaceRefused.ValuesIn(c.Message)
		if !found {
			break
		}
		var unread, wrong error
		until, unread = time.Parse(time.RFC3339, values[0])
		long, wrong = time.ParseDuration(values[1])
		return until, min(long, maxBackoff), shortenText(values[2]), unread == nil && wrong == nil && long > 0
	}
	return time.Time{}, 0, "", false
}

// shortenText puts a refusal on one line of bounded length.
func shortenText(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > maxRefusalBytes {
		words = strings.ToValidUTF8(words[:maxRefusalBytes], "") + " ..."
	}
	return strings.TrimRight(words, " .,")
}

// handleRevision shortens the backoff of a refused pod to one minute when its owner changes it: it may be accepted now. The backoff does not end at
// once, or a constantly changing pod would evict others all the time.
func (p *Plugin) handleRevision(before, after *corev1.Pod) {
	if before == nil || after == nil || after.Spec.NodeName != "" || sameToPolicies(before, after) {
		return
	}
	g, group, _ := singlePodGang(after)
	if name, ok := p.groups.groupOf(after); ok {
		if group = p.groups.getGroup(name); unusableReason(group) != "" {
			return
		}
		g = gangOf(after, group)
	}
	if until := p.gangStates.shortenBackoff(g, after.UID); until.After(p.now()) {
		p.activateAt(g, group, until, p.IsRepresentative)
	}
}

// sameToPolicies reports whether a pod is unchanged as far as admission policies can see.
func sameToPolicies(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// recordLostPlace records that a pod of a gang lost its place, and returns until when the gang evicts nothing, and the message. A running
// backoff is not extended: the gang is only tried in free places during that time.
func (p *gangStates) recordLostPlace(g gang, pod types.UID, words string, now time.Time) (until time.Time, told string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if r.preemptionBackoff == 0 || !now.Before(r.preemptionBackoffUntil) {
		r.preemptionBackoff = min(max(baseBackoff, 2*r.preemptionBackoff), maxBackoff)
		r.preemptionBackoffUntil = now.Add(r.preemptionBackoff)
	}
	r.hasEvicted, r.lostPlace.pod = false, pod
	r.backoffReason = reason.PlaceRefused.Text.FormatText(r.preemptionBackoffUntil.UTC().Format(time.RFC3339), r.preemptionBackoff.String(), words)
	return r.preemptionBackoffUntil, r.backoffReason
}

// restoreBackoff restores what another leader wrote on a pod, if this process has no backoff of its own.
func (p *gangStates) restoreBackoff(g gang, pod types.UID, until time.Time, long time.Duration, words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if r.preemptionBackoff > 0 {
		return
	}
	r.preemptionBackoff, r.preemptionBackoffUntil, r.lostPlace.pod = long, until, pod
	r.backoffReason = reason.PlaceRefused.Text.FormatText(until.UTC().Format(time.RFC3339), long.String(), words)
}

// lostPlaceReason returns why a gang evicts nothing since a pod of it lost its place, "" if that is not so.
func (p *gangStates) lostPlaceReason(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && r.lostPlace.pod != "" && now.Before(r.preemptionBackoffUntil) {
		return r.backoffReason
	}
	return ""
}

// shortenBackoff shortens the backoff of a gang to one minute since a pod of it was refused, and returns its end; the zero time if that pod was
// not the refused one.
func (p *gangStates) shortenBackoff(g gang, pod types.UID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || r.lostPlace.pod != pod {
		return time.Time{}
	}
	if soon := r.preemptionBackoffUntil.Add(baseBackoff - r.preemptionBackoff); soon.Before(r.preemptionBackoffUntil) {
		r.preemptionBackoffUntil = soon
	}
	r.lostPlace.until = minTime(r.lostPlace.until, r.preemptionBackoffUntil)
	return r.preemptionBackoffUntil
}

// holdBackStart holds back the start of a released gang, one of whose members is refused, until its preemption backoff ends.
func (p *gangStates) holdBackStart(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.lostPlace.pod != "" {
		r.lostPlace.until = r.preemptionBackoffUntil
	}
}

// startHoldReason returns why nothing starts of a gang, "" if it may start.
func (p *gangStates) startHoldReason(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.lostPlace.until) {
		return r.backoffReason
	}
	return ""
}

// clearBackoff clears the preemption backoff of a gang: the refused pod is known to have a place now.
func (r *gangState) clearBackoff() {
	if r.preemptionBackoff > 0 {
		r.preemptionBackoffUntil = time.Time{}
	}
	r.hasEvicted, r.preemptionBackoff, r.backoffReason, r.lostPlace = false, 0, "", lostPlace{}
}
