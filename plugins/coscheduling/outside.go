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

// outside is a gang for which there is room, and of which another plugin keeps a member out: by affinity, ports, spread or volumes. Until when
// no member is tried, for how long that is, and why. To try it again at once would have its members take places and lose them without end.
type outside struct {
	since, until time.Time
	long         time.Duration
	why          string
	// off is what is known of who keeps it out, nil for nothing.
	off *keptOff
}

const (
	// firstOutside is how long no member is tried; each time after that it is twice as long, up to exhausted.
	firstOutside = time.Second
	// soonest is how long that is at least when the cluster has changed, so that a busy one does not have it tried all the time.
	soonest = 5 * time.Second
	// mostRefusals is how many different refusals of nodes are told.
	mostRefusals = 3
)

// staysOutside has a gang wait of which a member began, or should have followed those that did, and found no place. It returns what all
// members are told: the same, as long as nothing changes.
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

// Unheard has the members of a gang give up their places that wait for one which found none, where PostFilter was not asked about that: a plugin
// before it has failed there, as Kubernetes' DynamicResources does for pods that others reject at PreFilter. It is called for each
// attempt that found no node, by the loop that PostFilter is called by, and returns what to tell the pod, "" for nothing.
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

// refusals sums up why nodes were refused, as kube-scheduler does: the most frequent first.
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

// isOutside says why no member of a pod's gang is tried for now, "" where they may be. One for which room is kept is: it gives the room back.
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

// isTried reports whether a pod is tried when it comes to the queue.
func (p *Plugin) isTried(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	return !ok || p.isOutside(pod, name) == ""
}

// heedsNews reports whether a member is to be tried since the cluster has changed. Where its gang was kept out a moment ago it is tried
// soon, and not at once.
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

// stayOutside notes that a member of a gang was kept out, and returns until when none is tried.
func (p *places) stayOutside(g gang, why string, off *keptOff, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.record(g).outside
	of.long = min(max(firstOutside, 2*of.long), exhausted)
	of.since, of.until, of.why, of.off = now, now.Add(of.long), why, off
	return of.until
}

// keptOff is what keeps a gang out of which no member is tried for now, nil where that is not known or not so.
func (p *places) keptOff(g gang, now time.Time) *keptOff {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.outside.until) {
		return r.outside.off
	}
	return nil
}

// comeSooner has members tried soon after they were kept out, and returns when.
func (p *places) comeSooner(g gang) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.record(g).outside
	of.until = minTime(of.until, of.since.Add(soonest))
	return of.until
}

// comeIn has members tried at once, as their PodGroup asks for something else now.
func (p *places) comeIn(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.outside = outside{}
	}
}

// outsideNow says why no member of a gang is tried, "" where they may be.
func (p *places) outsideNow(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.outside.until) {
		return r.outside.why
	}
	return ""
}
