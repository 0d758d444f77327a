package coscheduling

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// outside is the backoff of a gang that has room, and of which another plugin rejects a member, because of affinity, ports, spread or
// volumes. An immediate retry would make its members take places and lose them without end.
type outside struct {
	since, until time.Time
	long         time.Duration
	why          string
	// off is what is known of the obstacle, nil for nothing.
	off *keptOff
}

const (
	// firstOutside is the first backoff. It doubles each time, up to baseBackoff.
	firstOutside = time.Second
	// soonest is the minimum backoff after a change of the cluster, so that a busy cluster does not cause constant retries.
	soonest = 5 * time.Second
	// mostRefusals is how many different reasons are listed.
	mostRefusals = 3
)

// staysOutside backs off a gang whose member found no place although the gang had begun, or could have. It returns the message for all members,
// which is the same as long as nothing changes.
func (p *Plugin) staysOutside(g gang, group *podGroup, m *members, pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	now := p.now()
	words := p.refusals(refused)
	if now.IsZero() || words == "" { // a simulation, whose clock stands still, or a test without nodes
		return ""
	}
	why := reason.GangOutside.Text.Of(words)
	p.wakeAt(g, group, p.places.stayOutside(g, why, p.keptOffBy(pod, m, refused), now), oneMember())
	return why
}

// Unheard makes the waiting members of a gang give up their places when one found none and PostFilter was not called for it: an
// earlier plugin failed there, as Kubernetes' DynamicResources does for pods that others reject at PreFilter. The scheduling loop calls it for
// each attempt that found no node. It returns the message for the pod, "" for none.
func (p *Plugin) Unheard(pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	name, ok := p.groups.groupOf(pod)
	heard := p.asked == pod.UID
	if p.asked = ""; !ok || heard {
		return ""
	}
	defer p.forgetGone(pod)
	p.decided(name)
	group := p.groups.get(name)
	if unusable(group) != "" {
		return ""
	}
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	if p.standsWithout(pod, group, &m) {
		return ""
	}
	p.dissolve(g, group, &m, pod)
	if p.places.waitingOf(g) == 0 {
		return ""
	}
	p.fail(g)
	why := p.staysOutside(g, group, &m, pod, refused)
	p.giveUp(g, cmp.Or(why, reasonSibling))
	return why
}

// refusals summarizes why nodes were refused, as kube-scheduler does: the most frequent reasons first.
func (p *Plugin) refusals(refused fwk.NodeToStatusReader) string {
	if refused == nil {
		return ""
	}
	counts := map[string]int{}
	for _, node := range p.nodeNames() {
		for _, why := range refused.Get(node).Reasons() {
			if why != reasonElsewhere && why != reasonNoEviction {
				counts[why]++
			}
		}
	}
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	words = words[:min(len(words), mostRefusals)]
	for i, why := range words {
		words[i] = strconv.Itoa(counts[why]) + " " + why
	}
	return shortened(strings.Join(words, ", "))
}

// isOutside returns why no member of a pod's gang is tried for now, "" if they may be. A nominated member is always tried, to end its
// nomination.
func (p *Plugin) isOutside(pod *corev1.Pod, name types.NamespacedName) string {
	group := p.groups.get(name)
	if unusable(group) != "" || pod.Status.NominatedNodeName != "" || p.finished.before(pod) {
		return ""
	}
	g := gangOf(pod, group)
	if p.places.stands(g, group.minMember) || p.places.begun(g, group.minMember) {
		return ""
	}
	return p.places.outsideNow(g, p.now())
}

// isTried reports whether a pod that enters the queue is tried.
func (p *Plugin) isTried(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	return !ok || p.isOutside(pod, name) == ""
}

// heedsNews reports whether a change of the cluster requeues a member. If its gang was rejected a moment ago, it is tried soon, but not at once.
func (p *Plugin) heedsNews(pod *corev1.Pod) bool {
	name, _ := p.groups.groupOf(pod)
	group := p.groups.get(name)
	if group == nil || p.isTried(pod) {
		return true
	}
	g := gangOf(pod, group)
	p.wakeAt(g, group, p.places.comeSooner(g), oneMember())
	return false
}

// stayOutside records that a member of a gang was rejected, and returns until when none is tried.
func (p *places) stayOutside(g gang, why string, off *keptOff, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.record(g).outside
	of.long = min(max(firstOutside, 2*of.long), exhausted)
	of.since, of.until, of.why, of.off = now, now.Add(of.long), why, off
	return of.until
}

// keptOff returns what blocks a gang that is not tried for now, nil if nothing does or it is not known.
func (p *places) keptOff(g gang, now time.Time) *keptOff {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.outside.until) {
		return r.outside.off
	}
	return nil
}

// comeSooner shortens the backoff of a rejected gang, and returns its end.
func (p *places) comeSooner(g gang) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.record(g).outside
	of.until = minTime(of.until, of.since.Add(soonest))
	return of.until
}

// comeIn ends the backoff of a rejected gang, because its PodGroup has changed.
func (p *places) comeIn(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.outside = outside{}
	}
}

// outsideNow returns why no member of a gang is tried, "" if they may be.
func (p *places) outsideNow(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.outside.until) {
		return r.outside.why
	}
	return ""
}
