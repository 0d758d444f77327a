package coscheduling

import (
	"context"
	"hash/maphash"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// reasonBackoff is the message for members during a backoff, in words that gpuctl knows.
var reasonBackoff = string(reason.GangTurnedAway.Text)

const (
	// reasonNoRoomForAll is the message of each member for which there is no place.
	reasonNoRoomForAll = string(reason.GangWhole)
	// Messages for members that give up their places, because a sibling found none or lost its own.
	reasonSibling = string(reason.GangSiblingRefused)
	reasonLost    = string(reason.GangSiblingLost)
	// reasonNoEviction is the status that preemption gets for each node where it could make room.
	reasonNoEviction = string(reason.GangEvictsNone)
	// reasonElsewhere is the status of nodes that the plan for a gang has not chosen.
	reasonElsewhere = string(reason.GangPlannedElsewhere)
)

// PreFilter rejects a member while there is no room for the whole gang. Otherwise gangs would take places and give them up again without end,
// and wake each other up each time. A gang that has begun continues. No status of PreFilter allows preemption: what is missing is room for
// several pods.
//
// Pods without a gang are skipped, as are pods whose gang runs without them: they are placed like any other pod.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	name, ok := p.groups.GroupOf(pod)
	if !ok || p.finished.HasFinishedSibling(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if a := attemptFrom(state); a != nil && a.isDryRun {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	defer p.forgetIfGone(pod)
	group := p.groups.GetGroup(name)
	if reason := group.UnusableReason(); reason != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	m := p.membersOf(pod, group)
	g := gangOf(pod, group)
	if m.Bound+1 >= group.MinMember || !group.Layout.IsAny() && len(m.Placed) >= group.MinMember {
		return p.joinRunningGang(state, g, group, &m, nodes)
	}
	if reason := p.refusalReason(g, group, &m, nodes, cycle.ReadChanges(state)); reason != "" {
		p.retryMissedSiblings(g, group, pod, &m)
		p.gangs.setRepresentative(g, pod, m.Waiting)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	cycle := &attempt{isStarting: true, allowed: p.gangs.planOf(g).AllowedNodes(pod)}
	state.Write(stateKey, cycle)
	return cycle.preFilterResult(), nil
}

// retryMissedSiblings has the members tried that reported that others are missing, once none are: only the representative is tried for its gang, and
// the others would go on to report that.
func (p *Plugin) retryMissedSiblings(g gang, group *podgroup.Group, pod *corev1.Pod, m *placement.Members) {
	if m.MissingReason(group.MinMember) != "" {
		p.gangs.recordMissedSiblings(g, nameOf(pod), m.Waiting)
		return
	}
	if reported := p.gangs.takeMissedSiblings(g, nameOf(pod)); reported.Len() > 0 {
		p.activatePending(g, group, func(other *corev1.Pod) bool { return reported.Has(nameOf(other)) })
	}
}

// joinRunningGang lets a member join a gang that is already complete: beside the other members if its layout requires it, or beside those of its
// segment.
func (p *Plugin) joinRunningGang(state fwk.CycleState, g gang, group *podgroup.Group, m *placement.Members, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	cycle := &attempt{}
	if group.Layout.Segment == 0 {
		cycle.allowed = p.siblingDomain(group.Layout, m.Placed, nodes)
	} else {
		var why string
		if cycle.allowed, why = p.segmentDomain(g, group, m, nodes); why != "" {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
		}
		cycle.prefersDomain = !group.Layout.Required
	}
	if cycle.allowed == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, cycle)
	return cycle.preFilterResult(), nil
}

// refusalReason returns why a gang may not begin, "" if it may.
func (p *Plugin) refusalReason(g gang, group *podgroup.Group, m *placement.Members, nodes []fwk.NodeInfo, changes *cycle.Changes) string {
	if reason := m.MissingReason(group.MinMember); reason != "" {
		return reason
	}
	if hold := p.gangs.stateOf(g).StartHold(p.now(), phase.Standing{Bound: m.Bound, Placed: len(m.Placed)}); hold.Reason != phase.NoReason {
		return p.explainHold(g, hold)
	}
	if len(m.Placed) > m.Bound && (group.Layout.IsAny() || p.gangs.planOf(g).IncludesPod(m.Waiting[0])) {
		return "" // this process found room for all, and some siblings already hold places
	}
	b := p.newSnapshot(nodes)
	b.Request = p.quotaRequest(group, m)
	if reason := overQuotaReason(b.Request); reason != "" {
		return reason
	}
	on := newBasis(len(nodes), p.latestGeneration.UpdateGeneration(nodes, p.handle.SnapshotSharedLister().NodeInfos(), changes), group, m)
	on.Quotas = p.quotas.Revision()
	b.Kept, on.Nominated = p.nominatedAsks(g, group, m)
	on.Reservations, on.StartReservations = p.reservationFingerprint(m.Waiting), p.startReservations.Version()
	before := p.gangs.planOf(g)
	on.ExcludedNodes, on.HoldOutUntil = before.CountExcluded(), group.HoldOutUntil(m, p.now())
	if reason := p.gangs.stateOf(g).VerdictOn(on); reason != "" {
		return reason
	}
	reason := b.LackOfRoom(group.Needs(), m)
	if reason == "" && !group.Layout.IsAny() && !before.IsCurrentFor(on, m.Waiting[0]) {
		reason = p.planGang(g, group, m, b, on)
	}
	if reason != "" {
		p.gangs.changeState(g, func(s *phase.Gang) {
			s.RecordVerdict(phase.Verdict{On: on, Reason: reason, IsChoice: isChoice(reason)})
		})
	}
	return reason
}

// explainHold returns why members are not tried for now. Only the end of the backoff after a failure has no timer yet: no event in the cluster
// reports it, and the members would wait until kube-scheduler flushes its queue, after five minutes.
func (p *Plugin) explainHold(g gang, hold phase.Hold) string {
	if hold.Reason != phase.MemberFailed {
		return hold.Why
	}
	p.gangs.planAttempt(g, hold.Reason, hold.Until)
	return reasonBackoff
}

// isChoice reports whether a gang waits voluntarily: there is room, and it waits for a better placement.
func isChoice(why string) bool {
	_, one := reason.GangHoldsOut.Text.ParseValues(why)
	_, each := reason.GangSegmentsHoldOut.Text.ParseValues(why)
	return one || each
}

// nominatedAsks returns the requests of pods that are nominated to nodes and come before the members of a gang: nominated by preemption or by gpuctl
// advise defrag, with the priority of the gang or higher. Filter counts them on the nodes as well, so without this members would begin and find
// no place. Only nodes named in a nomination are visited, not the whole cluster. The second value is a fingerprint of these pods.
func (p *Plugin) nominatedAsks(g gang, group *podgroup.Group, m *placement.Members) (kept map[string][]cycle.ResourceRequest, of uint64) {
	least, request := corev1helpers.PodPriority(m.Waiting[0]), p.quotaRequest(group, m)
	for _, node := range p.pods.ListIndexFuncValues(byNomination) {
		for _, info := range p.handle.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if p.isMemberOf(g, group, m, pod) || corev1helpers.PodPriority(pod) < least && !request.DefersTo(pod) {
				continue
			}
			if kept == nil {
				kept = map[string][]cycle.ResourceRequest{}
			}
			kept[node] = append(kept[node], cycle.PodResourceRequests(pod)...)
			of += placement.PodsFingerprint([]*corev1.Pod{pod}) ^ maphash.String(placement.Seed, node)
		}
	}
	return kept, of
}

// isMemberOf reports whether a pod is a member of a gang, or the single pod that the gang consists of.
func (p *Plugin) isMemberOf(g gang, group *podgroup.Group, m *placement.Members, pod *corev1.Pod) bool {
	if g.isSinglePod() {
		return pod.UID == m.Waiting[0].UID
	}
	name, ok := p.groups.GroupOf(pod)
	return ok && name == g.group && gangOf(pod, group) == g
}

// reservationFingerprint returns a fingerprint of the node reservations that apply to the waiting members. Members differ only in how long they
// may run.
func (p *Plugin) reservationFingerprint(waiting []*corev1.Pod) (of uint64) {
	if !p.reservations.HasAny() {
		return 0
	}
	seen := sets.Set[time.Duration]{}
	for _, pod := range waiting {
		if stay, _ := reservation.MaxStay(pod); !seen.Has(stay) {
			seen.Insert(stay)
			of += p.reservations.ClosedFor(pod).Fingerprint()
		}
	}
	return of
}

// newBasis returns the basis of a verdict on room, for a number of nodes and their latest generation.
func newBasis(nodes int, generation int64, group *podgroup.Group, m *placement.Members) phase.Basis {
	return phase.Basis{
		Members: placement.PodsFingerprint(m.Waiting), Nodes: nodes, Generation: generation, Group: string(group.UID) + "/" + group.ResourceVersion, Placed: len(m.Placed),
	}
}

// attempt is the cycle state of a member.
type attempt struct {
	// isStarting says that the gang is incomplete, so that no pod is evicted for it.
	isStarting bool
	// evicting is set in the copies that preemption uses to check what would happen without some pods.
	evicting bool
	// isDryRun says that this is a dry run that asks the other plugins about a placement.
	isDryRun bool
	// allowed are the nodes that it may go to, nil for all.
	allowed sets.Set[string]
	// prefersDomain says that the member prefers the domain of its segment, and may go elsewhere if it is rejected there.
	prefersDomain bool
}

// preFilterResult limits the scheduler to the nodes that the member may use.
func (a *attempt) preFilterResult() *fwk.PreFilterResult {
	if a.allowed == nil {
		return nil
	}
	return &fwk.PreFilterResult{NodeNames: a.allowed}
}

// beginsGang reports whether PreFilter let a member begin in this cycle.
func beginsGang(state fwk.CycleState) bool {
	a := attemptFrom(state)
	return a != nil && a.isStarting
}

// plannedNode returns the one node planned for a member in this cycle, "" for none.
func plannedNode(state fwk.CycleState) string {
	if a := attemptFrom(state); a != nil && a.isStarting && a.allowed.Len() == 1 {
		return a.allowed.UnsortedList()[0]
	}
	return ""
}

func attemptFrom(state fwk.CycleState) *attempt {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	a, _ := data.(*attempt)
	return a
}

const stateKey fwk.StateKey = "PreFilter" + Name

// Clone implements fwk.StateData. The nodes are only read.
func (a *attempt) Clone() fwk.StateData { clone := *a; return &clone }

// PreFilterExtensions returns the plugin, which tracks the removal of pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod changes nothing.
func (*Plugin) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// RemovePod notes that a pod is removed from a node, which only preemption does.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if a := attemptFrom(state); a != nil {
		a.evicting = true
	}
	return nil
}

// Filter restricts members to their plan, also on their nominated node, for which PreFilter is not called. It also prevents preemption for a
// single member of an incomplete gang. Each member would evict only for itself: a gang that lacks one node would evict once for each member, and
// a gang that cannot start for another reason would do so over and over.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	a := attemptFrom(state)
	switch {
	case a == nil:
		return nil
	case a.allowed != nil && !a.allowed.Has(info.Node().Name):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonElsewhere)
	case (a.isStarting || a.prefersDomain) && a.evicting:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoEviction)
	}
	return nil
}

// dryRunner returns what runs the filters of all plugins, in a state that has this plugin let members pass.
func (p *Plugin) dryRunner() preemption.DryRunner {
	return preemption.DryRunner{Handle: p.handle, Framework: p.framework, MarkState: func(state fwk.CycleState) { state.Write(stateKey, &attempt{isDryRun: true}) }}
}

// newSnapshot takes the snapshot for one attempt.
func (p *Plugin) newSnapshot(nodes []fwk.NodeInfo) placement.ClusterSnapshot {
	return placement.ClusterSnapshot{Nodes: nodes, DeviceCache: p.deviceCache, Reservations: p.reservations, StartReservations: p.startReservations, Tables: &p.tables, Steps: ptr.To(gangplan.DefaultBudget)}
}
