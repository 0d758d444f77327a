package coscheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// CallNext moves a pod ahead of all others of its priority, except those that replace another pod and those whose gangs have begun; nil ends that.
// The pod is identified by its address. The copy enters the queue after the call and leaves it before the next call, so what the queue compares
// for a pod in it never changes.
func (p *Plugin) CallNext(pod *corev1.Pod) { p.queuePositions.CallPod(pod) }

// PendingPod returns the current version of a waiting pod from the informers, nil if it no longer waits.
func (p *Plugin) PendingPod(pod *corev1.Pod) *corev1.Pod {
	if there := p.livePod(nameOf(pod), pod.UID); there != nil && isPending(there) {
		return there
	}
	return nil
}

// isPending reports whether the scheduler has something to do for a pod: find a node, or make room on its node for a resize that kubelet deferred.
// The latter enters the queue with feature gate InPlacePodVerticalScalingSchedulerPreemption, which is alpha in Kubernetes 1.37.
func isPending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || resource.IsPodResizeDeferred(pod)
}

// SortsBefore reports whether a waiting pod comes before another one in queue order, regardless of whose turn it is.
func (p *Plugin) SortsBefore(a, b *corev1.Pod) bool {
	return p.sortKeySince(a, p.queuePositions.QueuedSince(a.UID)).ComesBefore(p.sortKeySince(b, p.queuePositions.QueuedSince(b.UID)), p.queuePositions.CalledPod())
}

// RecordFailure records a failed attempt of a pod, before it returns to the queue.
func (p *Plugin) RecordFailure(pod *corev1.Pod) { p.queuePositions.RecordFailure(pod.UID, p.now()) }

// HasBegun reports whether the gang of a pod has begun to take places. Such a gang is not interrupted.
func (p *Plugin) HasBegun(pod *corev1.Pod) bool {
	name, ok := p.groups.GroupOf(pod)
	if !ok {
		return false
	}
	group := p.groups.GetGroup(name)
	return group.UnusableReason() == "" && p.gangs.hasBegun(gangOf(pod, group), group.MinMember)
}

// HasPrecedence reports whether a pod stands in the queue before all others of its priority: its gang had begun when the pod arrived, or the pod
// replaces one that left after a preemption notice.
func (p *Plugin) HasPrecedence(pod *corev1.Pod) bool {
	as, _ := p.queuePositions.PositionOf(pod.UID)
	return as.HasBegun || as.IsReplacement
}

// TakeQueued returns some of the pods that entered the queue since the last call, from each namespace. Some may be backing off, or be held out by
// another plugin.
func (p *Plugin) TakeQueued() []*corev1.Pod { return p.queuePositions.TakeQueued() }
