package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gang/queue"
)

// Less sorts pods by priority. Next come members of gangs that have begun to take places, so that no other pod takes the places of their
// siblings, and pods that replace others which left after a preemption notice. Then comes the pod that is called because its namespace is next
// (plugins/fairqueue.go). The rest is sorted by time: for a pod when it entered the queue, for a member the time of its PodGroup, so that gangs stay
// together. A failed attempt resets the time of either, so that pods without room do not block the queue. The members of a gang come in the
// order in which their places were planned: with topology spread constraints, another order may not have places for all.
//
// The queue is a heap, which stays out of order if the sort key of a queued pod changes. So the mutable state of a gang counts as of when the
// pod entered the queue.
//
// A PodGroup of Kubernetes, which its scheduler tries as a whole, has no position of Coscheduling: it is sorted by priority and time.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return p.sortKeyOf(a).ComesBefore(p.sortKeyOf(b), p.queuePositions.CalledPod())
}

// queuedPod returns the queued pod, nil for a PodGroup of Kubernetes.
func queuedPod(entity fwk.QueuedEntityInfo) *corev1.Pod {
	if info, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok {
		return info.GetPodInfo().GetPod()
	}
	return nil
}

// PreEnqueue records the position of a pod that enters the queue. It holds a member out while its gang is incomplete, or while another plugin
// has just rejected the gang. The queue is locked during the call: activating other pods from here would deadlock.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 && p.isAlive(pod) {
		p.queuePositions.RecordQueued(pod, p.now())
	}
	as := p.currentPosition(pod)
	as.IsReplacement = p.isReplacement(pod)
	name, member := p.groups.GroupOf(pod)
	if member || as.IsReplacement {
		p.queuePositions.RecordPosition(pod.UID, &as)
	} else {
		p.queuePositions.RecordPosition(pod.UID, nil)
	}
	if !member {
		return nil
	}
	if !p.isAlive(pod) { // a stale event, which is not repeated
		p.queuePositions.RecordGone(pod.UID, p.now())
		return nil
	}
	if status := p.holdIncompleteGang(pod, name); !status.IsSuccess() {
		return status
	}
	if why := p.rejectionReason(pod, name); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// currentPosition returns the current position of a pod's gang.
func (p *Plugin) currentPosition(pod *corev1.Pod) queue.Position {
	name, ok := p.groups.GroupOf(pod)
	if !ok {
		return queue.Position{}
	}
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" {
		return queue.Position{}
	}
	g := gangOf(pod, group)
	t := queue.Position{HasBegun: p.gangs.hasBegun(g, group.MinMember), At: queuedSince(pod, group)}
	if failed := p.gangs.stateOf(g).FailedAt(); !failed.IsZero() {
		t.At = failed
	}
	for _, of := range []gang{g, {group: g.group}} { // changes of a PodGroup must not delay other pods
		if rests := p.gangs.stateOf(of).QueuedBehind(); rests.After(t.At) {
			t.At = rests
		}
	}
	return t
}

// maxHeadStart is the most that a PodGroup may be older than a member and still set its time.
const maxHeadStart = time.Hour

// queuedSince returns the time that a member is queued by: the creation of its PodGroup, so that the gang stays together. If the PodGroup is much
// older than its pods, it is the hour in which the pod was created, which also keeps them together. Otherwise users who keep old PodGroups would
// come before everyone else.
func queuedSince(pod *corev1.Pod, group *podgroup.Group) time.Time {
	if pod.CreationTimestamp.Sub(group.CreationTimestamp.Time) > maxHeadStart {
		return pod.CreationTimestamp.Truncate(maxHeadStart)
	}
	return group.CreationTimestamp.Time
}

func (p *Plugin) sortKeyOf(info fwk.QueuedEntityInfo) queue.SortKey {
	at := info.GetTimestamp() // when it was added, or its last attempt failed
	if came := info.GetInitialAttemptTimestamp(); came != nil && came.After(at) {
		at = *came // it was gated until then
	}
	if pod := queuedPod(info); pod != nil {
		return p.sortKeySince(pod, &at)
	}
	r := queue.SortKey{Priority: info.GetPriority(), Position: queue.Position{At: at}}
	if group, ok := info.(klog.KMetadata); ok {
		r.Namespace, r.Name = group.GetNamespace(), group.GetName()
	}
	return r
}

// sortKeySince returns the sort key of a pod that entered the queue at a time, nil if it has not.
func (p *Plugin) sortKeySince(pod *corev1.Pod, came *time.Time) queue.SortKey {
	r := queue.SortKey{Pod: pod, Priority: corev1helpers.PodPriority(pod), Namespace: pod.Namespace, Name: pod.Name}
	group, member := p.groups.GroupOf(pod)
	if member {
		r.Group = group.Name
	}
	var noted bool
	if r.Position, noted = p.queuePositions.PositionOf(pod.UID); member && !noted { // a profile that enables this plugin for queueSort alone
		r.Position = p.currentPosition(pod)
	}
	if came != nil && r.At.IsZero() {
		r.At = *came
	}
	return r
}
