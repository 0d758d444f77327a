package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// putsOff records a failed write for a gang, and returns the delay of the retry.
func (p *places) putsOff(g gang, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return again // it is gone
	}
	r.putOff = min(max(again, 2*r.putOff), exhausted)
	r.settles, r.cleared, r.underWay = now.Add(r.putOff), false, false
	return r.putOff
}

// begins records that evictions for a gang are being written. While a slow API server takes its time, no further pods are evicted.
func (p *places) begins(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).underWay = true
}

// carriedOut records that all writes for a gang are done. It takes some time until its victims are seen to leave.
func (p *places) carriedOut(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		if r.putOff, r.underWay = 0, false; r.cleared {
			r.settles = now.Add(settling)
		}
	}
}

// standsBack records that the preemption of a gang was cancelled, because the gang would not start.
func (p *places) standsBack(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.settles, r.cleared, r.underWay = time.Time{}, false, false
	}
}

// wasPutOff returns the current write backoff of a gang, zero after a successful write.
func (p *places) wasPutOff(g gang) time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.putOff
	}
	return 0
}

// hasPlace reports whether a member with a planned place has found one in the meantime, so that its gang needs none. It is not checked
// after the first eviction: the rest of a unit that is evicted together would stay.
func (p *Plugin) hasPlace(members []*corev1.Pod, move *clearance) bool {
	return slices.ContainsFunc(members, func(pod *corev1.Pod) bool {
		there := p.living(nameOf(pod), pod.UID)
		return move.to[pod.UID] != "" && there != nil && there.Spec.NodeName != ""
	})
}
