package coscheduling

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// refused is the pod of a gang, or the pod alone, that lost its place last after a node was found for it: another plugin refused it at
// Reserve, Permit or PreBind, or the API server its Binding. until is how long nothing starts of a gang that ended for it.
type refused struct {
	pod   types.UID
	until time.Time
}

// mostRefusal is how much of a refusal is repeated on the pod, in bytes.
const mostRefusal = 300

// Refused notes that a pod lost its place after a node was found for it, and why, in the words of whoever refused it. It would lose the
// next one, too: so its gang, or the pod alone, evicts nothing for a minute, then for two, and so on up to an hour. It returns what to
// write on the pod, by which the next leader knows, "" for nothing.
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

// Rejected notes that a member lost its place since another member did, or the others did not come in time.
func (p *Plugin) Rejected(pod *corev1.Pod) {
	if g, group, _ := p.unitWith(pod); group != nil && !g.isAlone() {
		p.places.inVain(g, p.now())
	}
}

// unitWith is the gang of a pod, or the pod as a gang of one. There is none with a PodGroup that cannot be used.
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

// toldBefore is said in place of a refusal where PostFilter quotes it.
const toldBefore = "its last place was refused"

// refusedTo says why a pod evicts nothing since it, or another one of its gang, lost its last place, "" where that is not so.
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

// recall has a leader go by what the one before it wrote on pods of a gang.
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

// refusalOn reads what a leader wrote on a pod that lost its place: until when it evicts nothing, for how long that is, and why.
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

// shortened is a refusal on one line of bounded length.
func shortened(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > mostRefusal {
		words = strings.ToValidUTF8(words[:mostRefusal], "") + " ..."
	}
	return strings.TrimRight(words, " .,")
}

// revised has a pod that its owner changed since it was refused evict again when a minute is over: it may be let through now. Not at once,
// or whatever changes a pod all the time would have others evicted all the time.
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

// sameToPolicies reports whether a pod is what it was to who may refuse it.
func sameToPolicies(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// lose notes that a pod of a gang lost its place, and returns until when the gang evicts nothing, and what is told of it. While it evicts
// nothing anyway that is not made longer: it is tried in free places meanwhile.
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

// recall notes what another leader wrote on a pod, where this process knows nothing of it.
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

// refusedNow says why a gang evicts nothing since a pod of it lost its place, "" where that is not so.
func (p *places) refusedNow(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && r.refused.pod != "" && now.Before(r.abstains) {
		return r.keptOut
	}
	return ""
}

// revise has a gang evict nothing for a minute alone since a pod of it was refused, and returns until when: the zero time where that pod
// was none.
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

// sitOut has nothing start of a gang that was half, and ends since one of its members is refused, while it evicts nothing.
func (p *places) sitOut(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.refused.pod != "" {
		r.refused.until = r.abstains
	}
}

// sitsOut says why nothing starts of a gang, "" where it may.
func (p *places) sitsOut(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.refused.until) {
		return r.keptOut
	}
	return ""
}

// forgive forgets that a gang evicted in vain, or was refused: of the pod that was, it is known that it has a place now.
func (r *record) forgive() {
	if r.vain > 0 {
		r.abstains = time.Time{}
	}
	r.cleared, r.vain, r.keptOut, r.refused = false, 0, "", refused{}
}
