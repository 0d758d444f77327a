package coscheduling

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// holdRejectedGang backs off a gang whose member found no place although the gang had begun, or could have. It returns the message for all members,
// which is the same as long as nothing changes.
func (p *Plugin) holdRejectedGang(g gang, m *placement.Members, pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	now := p.now()
	nodes := p.nodeNames()
	words := rejection.SummarizeRefusals(refused, nodes, ownReasons)
	if now.IsZero() || words == "" { // a simulation, whose clock stands still, or a test without nodes
		return ""
	}
	why := reason.GangOutside.Text.FormatText(words)
	failed := rejection.Attempt{Pod: pod, AreAlike: m.AreAlike(pod), Nodes: nodes, Statuses: refused}
	p.gangs.recordRejection(g, why, rejection.NewBlock(failed, p.nodeNamed), now)
	return why
}

// ownReasons are the reasons by which this plugin itself refuses nodes.
var ownReasons = sets.New(reasonElsewhere, reasonNoEviction)

// nodeNamed returns a node by its name, nil if there is none.
func (p *Plugin) nodeNamed(name string) *corev1.Node {
	node, err := p.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// HandleMissedPostFilter makes the waiting members of a gang give up their places when one found none and PostFilter was not called for it: an
// earlier plugin failed there, as Kubernetes' DynamicResources does for pods that others reject at PreFilter. The scheduling loop calls it for
// each attempt that found no node. It returns the message for the pod, "" for none.
func (p *Plugin) HandleMissedPostFilter(pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	name, ok := p.groups.GroupOf(pod)
	heard := p.lastPostFiltered == pod.UID
	if p.lastPostFiltered = ""; !ok || heard {
		return ""
	}
	defer p.forgetIfGone(pod)
	p.releaseHeldMembers(name)
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" {
		return ""
	}
	g, m := gangOf(pod, group), p.membersOf(pod, group)
	if p.toleratesMissing(pod, group, &m) {
		return ""
	}
	p.releasePartialGang(g, group, &m, pod)
	if p.gangs.stateOf(g).Waiting == 0 {
		return ""
	}
	p.failGang(g)
	why := p.holdRejectedGang(g, &m, pod, refused)
	p.rejectWaiting(g, cmp.Or(why, reasonSibling))
	return why
}

// rejectionReason returns why no member of a pod's gang is tried for now, "" if they may be. A nominated member is always tried, to end its
// nomination.
func (p *Plugin) rejectionReason(pod *corev1.Pod, name types.NamespacedName) string {
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" || pod.Status.NominatedNodeName != "" || p.finished.HasFinishedSibling(pod) {
		return ""
	}
	g := gangOf(pod, group)
	if p.gangs.isComplete(g, group.MinMember) || p.gangs.hasBegun(g, group.MinMember) {
		return ""
	}
	return p.gangs.stateOf(g).RejectionReason(p.now())
}

// mayBeTried reports whether a pod that enters the queue is tried.
func (p *Plugin) mayBeTried(pod *corev1.Pod) bool {
	name, ok := p.groups.GroupOf(pod)
	return !ok || p.rejectionReason(pod, name) == ""
}

// shouldRequeue reports whether a change of the cluster requeues a member. If its gang was rejected a moment ago, it is tried soon, but not at once.
func (p *Plugin) shouldRequeue(pod *corev1.Pod) bool {
	name, _ := p.groups.GroupOf(pod)
	group := p.groups.GetGroup(name)
	if group == nil || p.mayBeTried(pod) {
		return true
	}
	g := gangOf(pod, group)
	p.gangs.changeState(g, func(s *phase.Gang) { s.PlanAttempt(phase.FilterRejected, s.RetrySoon()) })
	return false
}

// recordRejection records that a member of a gang was rejected, and what is known of the obstacle. One member is tried when the backoff is over.
func (r *gangs) recordRejection(g gang, why string, off *rejection.Block, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applyChange(g, r.ensureState(g), func(s *gangState) {
		s.block = off
		s.PlanAttempt(phase.FilterRejected, s.RecordRejection(why, now))
	})
}

// currentBlock returns what blocks a gang that is not tried for now, nil if nothing does or it is not known.
func (r *gangs) currentBlock(g gang, now time.Time) *rejection.Block {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.states[g]; ok && s.IsRejected(now) {
		return s.block
	}
	return nil
}
