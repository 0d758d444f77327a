package coscheduling

import (
	"context"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// quotaRequest returns the quota request of all missing members of a gang together; nil without quotas.
func (p *Plugin) quotaRequest(group *podgroup.Group, m *placement.Members) *follow.Request {
	if !p.quotas.HasAny() {
		return nil
	}
	return p.quotas.RequestFor(placement.NeededMembers(group.Needs(), m)...)
}

// overQuotaReason returns which quota is exceeded by a request, "" for none.
func overQuotaReason(request *follow.Request) string {
	if excess := request.BlockingExcess(); excess != nil {
		return reason.QuotaExcessText(excess)
	}
	return ""
}

// evictionUnit returns the name of the unit that is evicted with a pod, "" for none.
func (p *Plugin) evictionUnit(pod *corev1.Pod) string {
	of, group := p.gangOn(pod)
	if group == nil {
		return ""
	}
	return of.group.String() + "/" + string(of.owner)
}

// victimPriorityLimit returns the priority that victims must be below. If the pods may only evict borrowers, no priority is below it.
func (p *Plugin) victimPriorityLimit(waiting []*corev1.Pod, below int32) int32 {
	if p.mayEvict(waiting) {
		return below
	}
	return math.MinInt32
}

// quotaStanding returns what quotas say about pods that are evicted together: they yield if one of them borrows, and none is guaranteed its GPUs.
// Services of the cluster are exempt.
func (c *victimCollector) quotaStanding(pods ...*corev1.Pod) gpuquota.Standing {
	standing := gpuquota.Neutral
	if c.service {
		return standing
	}
	for _, pod := range pods {
		if c.request == nil && c.quotas.IsGuaranteed(pod, c.own.group.Namespace) {
			return gpuquota.Protected
		}
		switch of := c.request.StandingOf(pod); {
		case of == gpuquota.Protected:
			return of
		case of == gpuquota.Yields && !isService(pod):
			standing = of
		}
	}
	return standing
}

// mayBeEvicted reports whether a pod may be evicted by its priority, and by its quotas.
func (c *victimCollector) mayBeEvicted(pod *corev1.Pod, standing gpuquota.Standing) bool {
	weaker := corev1helpers.PodPriority(pod) < c.below || standing == gpuquota.Yields
	return weaker && standing != gpuquota.Protected && !c.refusedPods[pod.UID]
}

// victimRank ranks borrowers before all other victims, and by priority among themselves.
func victimRank(borrows bool, priority int32) int64 {
	if !borrows {
		return int64(priority)
	}
	return int64(priority) - 1<<32
}

// singlePodPrefix is the prefix of the group name of a pod without a group. No PodGroup has such a name.
const singlePodPrefix = "pod/"

func (g gang) isSinglePod() bool { return strings.HasPrefix(g.group.Name, singlePodPrefix) }

// singlePodGang returns a pod as a gang of one.
func singlePodGang(pod *corev1.Pod) (gang, *podgroup.Group, placement.Members) {
	group := &podgroup.Group{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: singlePodPrefix + pod.Name}, MinMember: 1, SeveralOwners: true}
	return gangOf(pod, group), group, placement.Members{Waiting: []*corev1.Pod{pod}}
}

// findSinglePod returns the pod of such a group.
func (p *Plugin) findSinglePod(group types.NamespacedName) []*corev1.Pod {
	name, ok := strings.CutPrefix(group.Name, singlePodPrefix)
	if !ok {
		return nil
	}
	object, found, err := p.pods.GetByKey(group.Namespace + "/" + name)
	pod, isPod := object.(*corev1.Pod)
	if err != nil || !found || !isPod || !isLive(pod) {
		return nil
	}
	return []*corev1.Pod{pod}
}

// reclaimGuaranteed evicts pods that borrow the GPUs guaranteed to a pod without a gang, as preemptForGang does for gangs. Other preemption is
// done by kube-scheduler's own plugin, which runs before.
func (p *Plugin) reclaimGuaranteed(ctx context.Context, pod *corev1.Pod, refused fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !p.quotas.RequestFor(pod).IsEntitled() {
		return nil, unschedulableStatus(p.reserveStartForPod(pod, refused))
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable) // it is in memory
	}
	g, group, m := singlePodGang(pod)
	on := newBasis(len(nodes), placement.MaxGeneration(nodes), group, &m)
	_, on.Nominated = p.nominatedAsks(g, group, &m)
	on.Reservations, on.Quotas = p.reservationFingerprint(m.Waiting), p.quotas.Revision()
	p.gangs.changeState(g, func(s *phase.Gang) { s.RecordVerdict(phase.Verdict{On: on}) })
	p.tracksSinglePods.Store(true)
	defer p.forgetSinglePod(pod)
	node, why := p.preemptForGang(ctx, g, group, &m, pod, refused)
	if node != "" {
		p.withdrawNotices(podAsPreemptor(pod).Key()) // otherwise the victims notified for its priority would leave as well
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}, nil
	}
	if told := p.reserveStartForPod(pod, refused); why == "" {
		why = told
	}
	return nil, unschedulableStatus(why)
}

// areBorrowersLeaving reports whether pods of any priority are leaving the nominated node of a pod: kube-scheduler's own preemption only considers
// lower priorities, and would evict more pods elsewhere.
func (p *Plugin) areBorrowersLeaving(pod *corev1.Pod) bool {
	if pod.Status.NominatedNodeName == "" || !p.quotas.HasAny() {
		return false
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	return err == nil && slices.ContainsFunc(info.GetPods(), func(on fwk.PodInfo) bool {
		other := on.GetPod()
		return partial.WasPreempted(other) && isLeaving(other, p.now())
	})
}

// forgetSinglePod drops the state of a pod without a gang that is gone, or bound. It is called for each bound pod, so it costs nothing if no such
// state exists.
func (p *Plugin) forgetSinglePod(pod *corev1.Pod) {
	if !p.tracksSinglePods.Load() || pod.Spec.NodeName == "" && p.isAlive(pod) {
		return
	}
	g, _, _ := singlePodGang(pod)
	p.gangs.dropGang(g)
}
