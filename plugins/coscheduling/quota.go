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

	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// requestOf returns the quota request of all missing members of a gang together; nil without quotas.
func (p *Plugin) requestOf(group *podGroup, m *members) *follow.Request {
	if !p.quotas.Any() {
		return nil
	}
	return p.quotas.Of(needed(group, m)...)
}

// overQuota returns which quota is exceeded by a request, "" for none.
func overQuota(request *follow.Request) string {
	if excess := request.Over(); excess != nil {
		return reason.OverQuota(excess)
	}
	return ""
}

// unitOf returns the name of the unit that is evicted with a pod, "" for none.
func (p *Plugin) unitOf(pod *corev1.Pod) string {
	of, group := p.gangOn(pod)
	if group == nil {
		return ""
	}
	return of.group.String() + "/" + string(of.owner)
}

// weakest returns the priority that victims must be below. If the pods may only evict borrowers, no priority is below it.
func (p *Plugin) weakest(waiting []*corev1.Pod, below int32) int32 {
	if p.mayEvict(waiting) {
		return below
	}
	return math.MinInt32
}

// standing returns what quotas say about pods that are evicted together: they yield if one of them borrows, and none is guaranteed its GPUs.
// Services of the cluster are exempt.
func (c *census) standing(pods ...*corev1.Pod) gpuquota.Standing {
	standing := gpuquota.Neutral
	if c.service {
		return standing
	}
	for _, pod := range pods {
		if c.request == nil && c.quotas.Guaranteed(pod, c.own.group.Namespace) {
			return gpuquota.Protected
		}
		switch of := c.request.Standing(pod); {
		case of == gpuquota.Protected:
			return of
		case of == gpuquota.Yields && !isService(pod):
			standing = of
		}
	}
	return standing
}

// leaves reports whether a pod may be evicted by its priority, and by its quotas.
func (c *census) leaves(pod *corev1.Pod, standing gpuquota.Standing) bool {
	weaker := corev1helpers.PodPriority(pod) < c.below || standing == gpuquota.Yields
	return weaker && standing != gpuquota.Protected && !c.stays[pod.UID]
}

// lowestIf ranks borrowers before all other victims, and by priority among themselves.
func lowestIf(borrows bool, priority int32) int64 {
	if !borrows {
		return int64(priority)
	}
	return int64(priority) - 1<<32
}

// lone is the prefix of the group name of a pod without a group. No PodGroup has such a name.
const lone = "pod/"

func (g gang) isAlone() bool { return strings.HasPrefix(g.group.Name, lone) }

// aloneOf returns a pod as a gang of one.
func aloneOf(pod *corev1.Pod) (gang, *podGroup, members) {
	group := &podGroup{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: lone + pod.Name}, minMember: 1, severalOwners: true}
	return gangOf(pod, group), group, members{waiting: []*corev1.Pod{pod}}
}

// podAlone returns the pod of such a group.
func (p *Plugin) podAlone(group types.NamespacedName) []*corev1.Pod {
	name, ok := strings.CutPrefix(group.Name, lone)
	if !ok {
		return nil
	}
	object, found, err := p.pods.GetByKey(group.Namespace + "/" + name)
	pod, isPod := object.(*corev1.Pod)
	if err != nil || !found || !isPod || !lives(pod) {
		return nil
	}
	return []*corev1.Pod{pod}
}

// reclaim evicts pods that borrow the GPUs guaranteed to a pod without a gang, as preemptForGang does for gangs. Other preemption is
// done by kube-scheduler's own plugin, which runs before.
func (p *Plugin) reclaim(ctx context.Context, pod *corev1.Pod, refused fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !p.quotas.Of(pod).Entitled() {
		return nil, unschedulable(p.promiseOne(pod, refused))
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable) // it is in memory
	}
	g, group, m := aloneOf(pod)
	on := basisOf(len(nodes), latest(nodes), group, &m)
	_, on.nominated = p.keptFor(g, group, &m)
	on.closed, on.quotas = p.closedTo(m.waiting), p.quotas.Revision()
	p.places.refuse(g, refusal{on: on})
	p.alone.Store(true)
	defer p.forgetAlone(pod)
	node, why := p.makeRoom(ctx, g, group, &m, pod, refused)
	if node != "" {
		p.withdraw(podAsPreemptor(pod).Key()) // otherwise the victims notified for its priority would leave as well
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}, nil
	}
	if told := p.promiseOne(pod, refused); why == "" {
		why = told
	}
	return nil, unschedulable(why)
}

// borrowersLeave reports whether pods of any priority are leaving the nominated node of a pod: kube-scheduler's own preemption only considers
// lower priorities, and would evict more pods elsewhere.
func (p *Plugin) borrowersLeave(pod *corev1.Pod) bool {
	if pod.Status.NominatedNodeName == "" || !p.quotas.Any() {
		return false
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	return err == nil && slices.ContainsFunc(info.GetPods(), func(on fwk.PodInfo) bool {
		other := on.GetPod()
		return wasPreempted(other) && isLeaving(other, p.now())
	})
}

// forgetAlone drops the state of a pod without a gang that is gone, or bound. It is called for each bound pod, so it costs nothing if no such
// state exists.
func (p *Plugin) forgetAlone(pod *corev1.Pod) {
	if !p.alone.Load() || pod.Spec.NodeName == "" && p.isThere(pod) {
		return
	}
	g, _, _ := aloneOf(pod)
	p.places.drop(g)
	p.thrift.forget(g, p.now())
}
