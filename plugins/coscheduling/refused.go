package coscheduling

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// refused is the pod of a gang, or the single pod, that last lost its place after a node was found for it: another plugin rejected it at
// Reserve, Permit or PreBind, or the API server refused its Binding. until is how long nothing starts of a gang that was released for it.
type refused struct {
	pod   types.UID
	until time.Time
}

// mostRefusal is how much of a refusal is repeated on the pod, in bytes.
const mostRefusal = 300

// Refused records that a pod lost its place after a node was found for it, and why, in the words of the refusal. It would lose the next
// place as well. So its gang, or the single pod, evicts nothing for a minute, then for two, and so on up to an hour. It returns the message for
// the pod, by which the next leader knows, "" for none.
func (p *Plugin) Refused(was *corev1.Pod, words string) string {
	pod := p.living(nameOf(was), was.UID)
	if pod == nil || pod.Spec.NodeName != "" {
		return ""
	}
	defer p.forgetGone(pod)
	g, group, m := p.unitWith(pod)
	if group == nil {
		return ""
	}
	p.recall(g, pod)
	until, told := p.places.lose(g, pod.UID, shortened(words), p.now())
	p.wakeAt(g, group, until, p.GoesAhead)
	if !g.isAlone() {
		p.dissolve(g, group, &m, pod)
	}
	return told
}

// Rejected records that a member lost its place because another member did, or because the others did not arrive in time.
func (p *Plugin) Rejected(pod *corev1.Pod) {
	if g, group, _ := p.unitWith(pod); group != nil && !g.isAlone() {
		p.places.inVain(g, p.now())
	}
}

// unitWith returns the gang of a pod, or the pod as a gang of one. It returns none if the PodGroup is unusable.
func (p *Plugin) unitWith(pod *corev1.Pod) (gang, *podGroup, members) {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		p.alone.Store(true)
		return aloneOf(pod)
	}
	group := p.groups.get(name)
	if unusable(group) != "" {
		return gang{}, nil, members{}
	}
	return gangOf(pod, group), group, p.membersOf(pod, group)
}

// toldBefore replaces a refusal where PostFilter quotes it.
const toldBefore = "its last place was refused"

// refusedTo returns why a pod evicts nothing after it, or another pod of its gang, lost its last place, "" if that is not so.
func (p *Plugin) refusedTo(pod *corev1.Pod) string {
	g, group, _ := aloneOf(pod)
	if name, ok := p.groups.groupOf(pod); ok {
		if group = p.groups.get(name); unusable(group) != "" {
			return ""
		}
		g = gangOf(pod, group)
	}
	p.recall(g, pod)
	why := p.places.refusedNow(g, p.now())
	if why != "" && !g.isAlone() && !p.places.stands(g, group.minMember) {
		return toldBefore
	}
	return why
}

// recall restores the backoff that an earlier leader wrote on pods of a gang.
func (p *Plugin) recall(g gang, pods ...*corev1.Pod) {
	for _, pod := range pods {
		until, long, words, ok := refusalOn(pod)
		if !ok || !until.After(p.now()) {
			continue
		}
		if g.isAlone() {
			p.alone.Store(true)
		}
		p.places.recall(g, pod.UID, until, long, words)
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
		return until, min(long, mostVain), shortened(values[2]), unread == nil && wrong == nil && long > 0
	}
	return time.Time{}, 0, "", false
}

// shortened puts a refusal on one line of bounded length.
func shortened(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > mostRefusal {
		words = strings.ToValidUTF8(words[:mostRefusal], "") + " ..."
	}
	return strings.TrimRight(words, " .,")
}

// revised shortens the backoff of a refused pod to one minute when its owner changes it: it may be accepted now. The backoff does not end at
// once, or a constantly changing pod would evict others all the time.
func (p *Plugin) revised(before, after *corev1.Pod) {
	if before == nil || after == nil || after.Spec.NodeName != "" || sameToPolicies(before, after) {
		return
	}
	g, group, _ := aloneOf(after)
	if name, ok := p.groups.groupOf(after); ok {
		if group = p.groups.get(name); unusable(group) != "" {
			return
		}
		g = gangOf(after, group)
	}
	if until := p.places.revise(g, after.UID); until.After(p.now()) {
		p.wakeAt(g, group, until, p.GoesAhead)
	}
}

// sameToPolicies reports whether a pod is unchanged as far as admission policies can see.
func sameToPolicies(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// lose records that a pod of a gang lost its place, and returns until when the gang evicts nothing, and the message. A running
// backoff is not extended: the gang is only tried in free places during that time.
func (p *places) lose(g gang, pod types.UID, words string, now time.Time) (until time.Time, told string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.vain == 0 || !now.Before(r.abstains) {
		r.vain = min(max(exhausted, 2*r.vain), mostVain)
		r.abstains = now.Add(r.vain)
	}
	r.cleared, r.refused.pod = false, pod
	r.keptOut = reason.PlaceRefused.Text.Of(r.abstains.UTC().Format(time.RFC3339), r.vain.String(), words)
	return r.abstains, r.keptOut
}

// recall restores what another leader wrote on a pod, if this process has no backoff of its own.
func (p *places) recall(g gang, pod types.UID, until time.Time, long time.Duration, words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.vain > 0 {
		return
	}
	r.vain, r.abstains, r.refused.pod = long, until, pod
	r.keptOut = reason.PlaceRefused.Text.Of(until.UTC().Format(time.RFC3339), long.String(), words)
}

// refusedNow returns why a gang evicts nothing since a pod of it lost its place, "" if that is not so.
func (p *places) refusedNow(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && r.refused.pod != "" && now.Before(r.abstains) {
		return r.keptOut
	}
	return ""
}

// revise shortens the backoff of a gang to one minute since a pod of it was refused, and returns its end; the zero time if that pod was
// not the refused one.
func (p *places) revise(g gang, pod types.UID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || r.refused.pod != pod {
		return time.Time{}
	}
	if soon := r.abstains.Add(exhausted - r.vain); soon.Before(r.abstains) {
		r.abstains = soon
	}
	r.refused.until = minTime(r.refused.until, r.abstains)
	return r.abstains
}

// sitOut holds back the start of a released gang, one of whose members is refused, until its preemption backoff ends.
func (p *places) sitOut(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.refused.pod != "" {
		r.refused.until = r.abstains
	}
}

// sitsOut returns why nothing starts of a gang, "" if it may start.
func (p *places) sitsOut(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.refused.until) {
		return r.keptOut
	}
	return ""
}

// forgive clears the preemption backoff of a gang: the refused pod is known to have a place now.
func (r *record) forgive() {
	if r.vain > 0 {
		r.abstains = time.Time{}
	}
	r.cleared, r.vain, r.keptOut, r.refused = false, 0, "", refused{}
}
