package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/notice"
)

// TakeOver continues the notices of an earlier leader, which are stored on the pods. It is called when this process begins to lead. Notices
// whose preemptor no longer waits are withdrawn, and no victim gets more time than its pool allows from now on, because users may have changed
// the annotations.
func (p *Plugin) TakeOver() {
	if !p.preemptions.BeginLeading() {
		return
	}
	found := map[notice.Key][]*corev1.Pod{}
	for _, object := range p.pods.List() {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" {
			continue
		}
		if !isLive(pod) {
			p.trackLeaving(pod, true)
			continue
		}
		if told, ok := notice.FromPod(pod); ok {
			found[told.For.Key()] = append(found[told.For.Key()], pod)
		}
	}
	for key, victims := range found {
		p.adoptNotices(key, victims)
	}
}

// adoptNotices continues the notices for one preemptor.
func (p *Plugin) adoptNotices(key notice.Key, victims []*corev1.Pod) {
	now := p.now()
	by, plan := notice.Preemptor{}, map[types.UID]notice.Notice{}
	for _, pod := range victims {
		told, _ := notice.FromPod(pod)
		by = told.For
		most := now // a pod on a node that is gone has nothing to save
		if node, err := p.nodes.Get(pod.Spec.NodeName); err == nil {
			most = now.Add(p.pools.GracesOf(gpu.PoolOf(node)).Most)
		}
		if told.Until.After(most) {
			told.Until = most
		}
		plan[pod.UID] = told
	}
	p.preemptions.BeginPreemption(by, victims, plan, nil)
	if !p.isAwaited(by, true) {
		p.withdrawNotices(key)
		return
	}
	p.requeuePreemptor(key)
}

// isAwaited reports whether a preemptor still exists and waits, and, if required, is nominated.
func (p *Plugin) isAwaited(by notice.Preemptor, nominated bool) bool {
	comes := func(pod *corev1.Pod) bool {
		return isLive(pod) && pod.Spec.NodeName == "" && (!nominated || pod.Status.NominatedNodeName != "")
	}
	if by.Group == "" {
		pod := p.livePod(types.NamespacedName{Namespace: by.Namespace, Name: by.Pod}, by.UID)
		return pod != nil && comes(pod)
	}
	g := gang{group: types.NamespacedName{Namespace: by.Namespace, Name: by.Group}, owner: by.UID}
	group := p.groups.GetGroup(g.group)
	return group != nil && slices.ContainsFunc(p.gangPods(g, group), func(pod *corev1.Pod) bool { return gangOf(pod, group) == g && comes(pod) })
}
