package coscheduling

import corev1 "k8s.io/api/core/v1"

// Call has a pod sorted before all others of its priority that come in nobody's place and whose gangs have not begun, nil for none. It is
// known by its address: that copy is put in the queue after it is called, and is out of it before another one is called, so that what the
// queue compares of a pod in it never changes.
func (p *Plugin) Call(pod *corev1.Pod) { p.turns.called.Store(pod) }

// Waiting is a pod that waits as the informers have it now, nil for one that does not any more.
func (p *Plugin) Waiting(pod *corev1.Pod) *corev1.Pod {
	if there := p.living(nameOf(pod), pod.UID); there != nil && there.Spec.NodeName == "" {
		return there
	}
	return nil
}

// Before reports whether a pod that waits comes before another one by the order of the queue, whosever turn it is.
func (p *Plugin) Before(a, b *corev1.Pod) bool {
	return p.less(a, b, p.rankSince(a, p.turns.since(a.UID)), p.rankSince(b, p.turns.since(b.UID)))
}

// Fails notes that an attempt of a pod has failed, before the queue has it again.
func (p *Plugin) Fails(pod *corev1.Pod) { p.turns.fails(pod.UID, p.now()) }

// GoesOn reports whether the gang of a pod has begun to take places: it is not kept waiting halfway.
func (p *Plugin) GoesOn(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		return false
	}
	group := p.groups.get(name)
	return unusable(group) == "" && p.places.begun(gangOf(pod, group), group.minMember)
}

// ComesFirst reports whether a pod stands in the queue before all others of its priority: its gang had begun when it came, or it comes in
// the place of one that left when it was told to.
func (p *Plugin) ComesFirst(pod *corev1.Pod) bool {
	as, _ := p.turns.of(pod.UID)
	return as.begun || as.resumes
}

// News are some of the pods that were put in the queue since it was called last, of each namespace. Some may back off, or be kept out by another
// plugin.
func (p *Plugin) News() []*corev1.Pod { return p.turns.takeNews() }
