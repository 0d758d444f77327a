package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// forecastBudget is how many pods one search for the earliest start may visit, counting a pod each time its node is tried.
const forecastBudget = 500_000

// backfillPosition returns the queue position of a pod. A member has the position of its gang.
func (p *Plugin) backfillPosition(pod *corev1.Pod) backfill.QueuePosition {
	turn := backfill.QueuePosition{Job: string(pod.UID), Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time}
	if name, ok := p.groups.GroupOf(pod); ok {
		if group := p.groups.GetGroup(name); group.UnusableReason() == "" {
			turn.Job, turn.Since, turn.Members = gangJobName(gangOf(pod, group)), queuedSince(pod, group), group.MinMember
		}
	}
	return turn
}

// gangJobName returns the unique job name of a gang.
func gangJobName(g gang) string { return g.group.String() + "/" + string(g.owner) }

// reserveStart reserves the earliest possible start for a job that does not fit, if the job is first in the queue of its pool among those that can
// get a reservation. It returns the message for the job, "" for none.
func (p *Plugin) reserveStart(group *podgroup.Group, m *placement.Members, refused fwk.NodeToStatusReader) string {
	if p.startReservations.Horizon() == 0 {
		return ""
	}
	now := p.now()
	if now.IsZero() { // in a simulation nothing ends and the clock stands still
		return ""
	}
	turn, pool := p.backfillPosition(m.Waiting[0]), gpu.PodPool(m.Waiting[0])
	book := p.startReservations.CurrentSet()
	own, first := book.ForJob(turn.Job), book.FirstInPool(pool, now)
	if first != nil && first.Job != turn.Job && !turn.SortsBefore(first.QueuePosition) || !p.lacksOnlyRoom(group, m, refused) {
		p.startReservations.EndReservation(turn.Job)
		return ""
	}
	if p.startSearches.MaySearch(turn.Job, pool, own != nil, now) {
		own = p.renewReservation(group, m, turn, own, refused)
	}
	if own == nil {
		return ""
	}
	return reservationMessage(own)
}

// reservationMessage is the message that tells a job about its start reservation.
func reservationMessage(own *backfill.StartReservation) string {
	somewhere, in := reason.StartReserved, reason.StartReservedIn
	if own.Expected {
		somewhere, in = reason.StartReservedAsExpected, reason.StartReservedInAsExpected
	}
	at := own.At.UTC().Format(time.RFC3339)
	if own.Domain == "" {
		return somewhere.Text.FormatText(len(own.Places), at)
	}
	return in.Text.FormatText(len(own.Places), own.Domain, at)
}

// renewReservation computes the earliest start of a job and reserves it. It returns nil if nothing can be reserved.
func (p *Plugin) renewReservation(group *podgroup.Group, m *placement.Members, turn backfill.QueuePosition, own *backfill.StartReservation, refused fwk.NodeToStatusReader) *backfill.StartReservation {
	now, pool := p.now(), gpu.PodPool(m.Waiting[0])
	p.startReservations.SettleBets(turn.Job, func(name types.NamespacedName, uid types.UID) bool {
		pod := p.livePod(name, uid)
		return pod != nil && pod.Spec.NodeName != ""
	})
	own, fits := p.findEarliestStart(group, m, now, own, refused)
	p.startSearches.RecordSearch(turn.Job, pool, now, p.now())
	if fits && group.MinMember == 1 { // for a gang, PostFilter does this: breakReservation
		p.startSearches.SuspectJob(turn.Job, now)
	}
	if own == nil {
		p.startReservations.EndReservation(turn.Job)
		return nil
	}
	own.QueuePosition, own.Pool = turn, pool
	p.startReservations.ReserveStart(own)
	if p.startSearches.StartWatching(turn.Job) {
		p.scheduleRenewal(turn.Job, m.Waiting[0])
	}
	return own
}

// lacksOnlyRoom reports whether a job only waits for other pods to end: it is whole, within its quota, is not waiting for a better placement,
// and no other plugin keeps it from all nodes.
func (p *Plugin) lacksOnlyRoom(group *podgroup.Group, m *placement.Members, refused fwk.NodeToStatusReader) bool {
	if m.MissingReason(group.MinMember) != "" || !group.IsCoveredBy(m) || overQuotaReason(p.quotaRequest(group, m)) != "" {
		return false
	}
	if group.MinMember == 1 {
		return lacksRoom(refused, p.nodeNames())
	}
	return !p.gangs.stateOf(gangOf(m.Waiting[0], group)).LastVerdict().IsChoice && (refused == nil || refused.Get("").Plugin() == Name)
}

// nodeNames returns the names of the nodes of the snapshot.
func (p *Plugin) nodeNames() (names []string) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // it is in memory
	}
	for _, info := range nodes {
		names = append(names, info.Node().Name)
	}
	return names
}

// lacksRoom reports whether a node refused a pod because of the pods that are on it, or that have reserved it.
func lacksRoom(refused fwk.NodeToStatusReader, nodes []string) bool {
	return refused == nil || slices.ContainsFunc(nodes, func(node string) bool {
		status := refused.Get(node)
		_, promised := reason.KeptForFirst.Text.ParseValues(status.Message())
		return promised || isKeptWhole(status) || status.Code() == fwk.Unschedulable && capacityPlugins.Has(status.Plugin())
	})
}

// capacityPlugins are the plugins that refuse nodes which are full, by name: no plugin knows another one.
var capacityPlugins = sets.New("GPUFilter", "NodeResourcesFit")

// scheduleRenewal activates a job with a start reservation twice a minute. It ends the reservation when no pod of the job waits any more, or when it
// has not been renewed for long. No event in the cluster reports a pod that did not end in time, or changed labels. Pods that the reservation
// kept out are retried when it ends.
func (p *Plugin) scheduleRenewal(job string, pod *corev1.Pod) {
	if p.replay {
		return
	}
	time.AfterFunc(backfill.RenewInterval, func() {
		promise := p.startReservations.CurrentSet().ForJob(job)
		if promise == nil {
			p.startSearches.StopWatching(job)
			return
		}
		next := p.pendingPodOf(job, pod)
		if next == nil || !promise.IsInForce(p.now()) {
			p.startSearches.StopWatching(job)
			p.startReservations.EndReservation(job)
			return
		}
		p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(next).String(): next})
		p.scheduleRenewal(job, next)
	})
}

// pendingPodOf returns a waiting pod of a job, nil if there is none. It prefers the given pod.
func (p *Plugin) pendingPodOf(job string, pod *corev1.Pod) *corev1.Pod {
	candidates := []*corev1.Pod{p.livePod(nameOf(pod), pod.UID)}
	if name, ok := p.groups.GroupOf(pod); ok {
		if group := p.groups.GetGroup(name); group != nil {
			candidates = append(candidates, p.gangPods(gangOf(pod, group), group)...)
		}
	}
	for _, other := range candidates {
		if other != nil && isLive(other) && p.placeOf(other) == placeNone && len(other.Spec.SchedulingGates) == 0 && p.backfillPosition(other).Job == job {
			return other
		}
	}
	return nil
}

// breakReservation ends the reservation of a job that has room for all members and is rejected by another plugin. The obstacle may be permanent, and
// would keep out other jobs as well. It does nothing if a member found no room.
func (p *Plugin) breakReservation(pod *corev1.Pod, refused fwk.NodeToStatusReader) {
	job := p.backfillPosition(pod).Job
	if p.startReservations.CurrentSet().ForJob(job) == nil || refused != nil && lacksRoom(refused, p.nodeNames()) {
		return
	}
	p.startSearches.SuspectJob(job, p.now())
	p.startReservations.EndReservation(job)
}

// reserveStartForPod is reserveStart for a pod without a gang.
func (p *Plugin) reserveStartForPod(pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	_, group, m := singlePodGang(pod)
	return p.reserveStart(group, &m, refused)
}

// findEarliestStart returns where and when a job fits first, nil if it does not fit in time. A job with a reservation keeps its places as long as it
// starts there by then. fits says that there is room now, so that something else keeps the job out.
func (p *Plugin) findEarliestStart(group *podgroup.Group, m *placement.Members, now time.Time, before *backfill.StartReservation, refused fwk.NodeToStatusReader) (first *backfill.StartReservation, fits bool) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, false // it is in memory
	}
	b := p.newSnapshot(nodes)
	b.KeptWhole = keptWhole(nodes, refused)
	b.Kept, _ = p.nominatedAsks(gangOf(m.Waiting[0], group), group, m)
	of := placement.NewPendingMembers(group.Layout, placement.NeededMembers(group.Needs(), m), m, p.gangs.nodesOf)
	if of.Varied {
		return nil, false
	}
	seats, err := b.SlotsFor(of.Classes)
	if err != nil {
		return nil, false // GPUFilter reports what is wrong with the pod
	}
	on := placement.NewNodeDomain(group.Layout, seats, b)
	on.SetSegments(of)
	f := placement.NewForecast(on, now, forecastBudget, reservation.GoneBy)
	standing := f.NodeNumbers(p.gangs.nodesOf(m.Placed))
	if fits, _ := gangplan.Make(f.NewProblem(of.Classes, standing, f.FreeCapacity)); fits != nil {
		return keepReservation(before, p.gangs.stateOf(gangOf(m.Waiting[0], group)).IsBackingOff(now)), true
	}
	latest := now.Add(p.startReservations.Horizon())
	first = f.EarliestStartBy(of.Classes, standing, latest, comparableReservation(before, false))
	if first == nil && f.Left >= 0 && p.startReservations.HasHistory() {
		f = placement.NewForecast(on, now, forecastBudget, p.startReservations.ExpectedEnd)
		if first = f.EarliestStartBy(of.Classes, standing, latest, comparableReservation(before, true)); first != nil {
			first.Expected = true
		}
	}
	return first, false
}

// comparableReservation returns a reservation that rests on the same grounds as a new one, deadlines alone or expected ends; nil if it does not.
func comparableReservation(before *backfill.StartReservation, expected bool) *backfill.StartReservation {
	if before == nil || before.Expected != expected {
		return nil
	}
	return before
}

// keepReservation keeps the reservation of a job that has room now and only backs off for a moment. It returns nil if something other than room keeps
// the job out.
func keepReservation(before *backfill.StartReservation, backsOff bool) *backfill.StartReservation {
	if before == nil || !backsOff {
		return nil
	}
	again := *before
	return &again
}
