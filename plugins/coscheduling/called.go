package coscheduling

import corev1 "k8s.io/api/core/v1"

// Call moves a pod ahead of all others of its priority, except those that replace another pod and those whose gangs have begun; nil ends that.
// The pod is identified by its address. The copy enters the queue after the call and leaves it before the next call, so what the queue compares
// for a pod in it never changes.
func (p *Plugin) Call(pod *corev1.Pod) { p.turns.called.Store(pod) }

// Waiting returns the current version of a waiting pod from the informers, nil if it no longer waits.
func (p *Plugin) Waiting(pod *corev1.Pod) *corev1.Pod {
	if there := p.living(nameOf(pod), pod.UID); there != nil && there.Spec.NodeName == "" {
		return there
	}
	return nil
}

// Before reports whether a waiting pod comes before another one in queue order, regardless of whose turn it is.
func (p *Plugin) Before(a, b *corev1.Pod) bool {
	return p.less(a, b, p.rankSince(a, p.turns.since(a.UID)), p.rankSince(b, p.turns.since(b.UID)))
}

// Fails records a failed attempt of a pod, before it returns to the queue.
func (p *Plugin) Fails(pod *corev1.Pod) { p.turns.fails(pod.UID, p.now()) }

// GoesOn reports whether the gang of a pod has begun to take places. Such a gang is not interrupted.
func (p *Plugin) GoesOn(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		return false
	}
	group := p.groups.get(name)
	return unusable(group) == "" && p.places.begun(gangOf(pod, group), group.minMember)
}

// ComesFirst reports whether a pod stands in the queue before all others of its priority: its gang had begun when the pod arrived, or the pod
// replaces one that left after a preemption notice.
func (p *Plugin) ComesFirst(pod *corev1.Pod) bool {
	as, _ := p.turns.of(pod.UID)
	return as.begun || as.resumes
}

// News returns some of the pods that entered the queue since the last call, from each namespace. Some may be backing off, or be held out by
// another plugin.
func (p *Plugin) News() []*corev1.Pod { return p.turns.takeNews() }
