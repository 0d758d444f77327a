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

// filterRejection is the backoff of a gang that has room, and of which another plugin rejects a member, because of affinity, ports, spread or
// volumes. An immediate retry would make its members take places and lose them without end.
type filterRejection struct {
	since, until time.Time
	duration     time.Duration
	why          string
	// block is what is known of the obstacle, nil for nothing.
	block *filterBlock
}

const (
	// firstRejectionBackoff is the first backoff. It doubles each time, up to baseBackoff.
	firstRejectionBackoff = time.Second
	// minRejectionBackoff is the minimum backoff after a change of the cluster, so that a busy cluster does not cause constant retries.
	minRejectionBackoff = 5 * time.Second
	// maxRefusals is how many different reasons are listed.
	maxRefusals = 3
)

// holdRejectedGang backs off a gang whose member found no place although the gang had begun, or could have. It returns the message for all members,
// which is the same as long as nothing changes.
func (p *Plugin) holdRejectedGang(g gang, group *podGroup, m *members, pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	now := p.now()
	words := p.summarizeRefusals(refused)
	if now.IsZero() || words == "" { // a simulation, whose clock stands still, or a test without nodes
		return ""
	}
	why := reason.GangOutside.Text.FormatText(words)
	p.activateAt(g, group, p.gangStates.recordRejection(g, why, p.newFilterBlock(pod, m, refused), now), oneMember())
	return why
}

// HandleMissedPostFilter makes the waiting members of a gang give up their places when one found none and PostFilter was not called for it: an
// earlier plugin failed there, as Kubernetes' DynamicResources does for pods that others reject at PreFilter. The scheduling loop calls it for
// each attempt that found no node. It returns the message for the pod, "" for none.
func (p *Plugin) HandleMissedPostFilter(pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	name, ok := p.groups.groupOf(pod)
	heard := p.lastPostFiltered == pod.UID
	if p.lastPostFiltered = ""; !ok || heard {
		return ""
	}
	defer p.forgetIfGone(pod)
	p.releaseHeldMembers(name)
	group := p.groups.getGroup(name)
	if unusableReason(group) != "" {
		return ""
	}
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	if p.toleratesMissing(pod, group, &m) {
		return ""
	}
	p.releasePartialGang(g, group, &m, pod)
	if p.gangStates.countWaiting(g) == 0 {
		return ""
	}
	p.failGang(g)
	why := p.holdRejectedGang(g, group, &m, pod, refused)
	p.rejectWaiting(g, cmp.Or(why, reasonSibling))
	return why
}

// summarizeRefusals summarizes why nodes were refused, as kube-scheduler does: the most frequent reasons first.
func (p *Plugin) summarizeRefusals(refused fwk.NodeToStatusReader) string {
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
	words = words[:min(len(words), maxRefusals)]
	for i, why := range words {
		words[i] = strconv.Itoa(counts[why]) + " " + why
	}
	return shortenText(strings.Join(words, ", "))
}

// rejectionReason returns why no member of a pod's gang is tried for now, "" if they may be. A nominated member is always tried, to end its
// nomination.
func (p *Plugin) rejectionReason(pod *corev1.Pod, name types.NamespacedName) string {
	group := p.groups.getGroup(name)
	if unusableReason(group) != "" || pod.Status.NominatedNodeName != "" || p.finished.hasFinishedSibling(pod) {
		return ""
	}
	g := gangOf(pod, group)
	if p.gangStates.isComplete(g, group.minMember) || p.gangStates.hasBegun(g, group.minMember) {
		return ""
	}
	return p.gangStates.rejectionReason(g, p.now())
}

// mayBeTried reports whether a pod that enters the queue is tried.
func (p *Plugin) mayBeTried(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	return !ok || p.rejectionReason(pod, name) == ""
}

// shouldRequeue reports whether a change of the cluster requeues a member. If its gang was rejected a moment ago, it is tried soon, but not at once.
func (p *Plugin) shouldRequeue(pod *corev1.Pod) bool {
	name, _ := p.groups.groupOf(pod)
	group := p.groups.getGroup(name)
	if group == nil || p.mayBeTried(pod) {
		return true
	}
	g := gangOf(pod, group)
	p.activateAt(g, group, p.gangStates.retrySoon(g), oneMember())
	return false
}

// recordRejection records that a member of a gang was rejected, and returns until when none is tried.
func (p *gangStates) recordRejection(g gang, why string, off *filterBlock, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.ensureState(g).rejection
	of.duration = min(max(firstRejectionBackoff, 2*of.duration), baseBackoff)
	of.since, of.until, of.why, of.block = now, now.Add(of.duration), why, off
	return of.until
}

// filterBlock returns what blocks a gang that is not tried for now, nil if nothing does or it is not known.
func (p *gangStates) currentBlock(g gang, now time.Time) *filterBlock {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.rejection.until) {
		return r.rejection.block
	}
	return nil
}

// retrySoon shortens the backoff of a rejected gang, and returns its end.
func (p *gangStates) retrySoon(g gang) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.ensureState(g).rejection
	of.until = minTime(of.until, of.since.Add(minRejectionBackoff))
	return of.until
}

// clearRejection ends the backoff of a rejected gang, because its PodGroup has changed.
func (p *gangStates) clearRejection(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.rejection = filterRejection{}
	}
}

// rejectionReason returns why no member of a gang is tried, "" if they may be.
func (p *gangStates) rejectionReason(g gang, now time.Time) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok && now.Before(r.rejection.until) {
		return r.rejection.why
	}
	return ""
}
