package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// backOffWrites records a failed write for a gang, and returns the delay of the retry.
func (p *gangStates) backOffWrites(g gang, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return firstWriteRetry // it is gone
	}
	r.writeBackoff = min(max(firstWriteRetry, 2*r.writeBackoff), baseBackoff)
	r.departuresUntil, r.hasEvicted, r.writesPending = now.Add(r.writeBackoff), false, false
	return r.writeBackoff
}

// beginWrites records that evictions for a gang are being written. While a slow API server takes its time, no further pods are evicted.
func (p *gangStates) beginWrites(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).writesPending = true
}

// endWrites records that all writes for a gang are done. It takes some time until its victims are seen to leave.
func (p *gangStates) endWrites(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		if r.writeBackoff, r.writesPending = 0, false; r.hasEvicted {
			r.departuresUntil = now.Add(evictionSettleTime)
		}
	}
}

// cancelPreemption records that the preemption of a gang was cancelled, because the gang would not start.
func (p *gangStates) cancelPreemption(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.departuresUntil, r.hasEvicted, r.writesPending = time.Time{}, false, false
	}
}

// writeBackoff returns the current write backoff of a gang, zero after a successful write.
func (p *gangStates) writeBackoff(g gang) time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.writeBackoff
	}
	return 0
}

// hasPlacedMember reports whether a member with a planned place has found one in the meantime, so that its gang needs none. It is not checked
// after the first eviction: the rest of a unit that is evicted together would stay.
func (p *Plugin) hasPlacedMember(members []*corev1.Pod, move *preemptionCandidate) bool {
	return slices.ContainsFunc(members, func(pod *corev1.Pod) bool {
		there := p.livePod(nameOf(pod), pod.UID)
		return move.to[pod.UID] != "" && there != nil && there.Spec.NodeName != ""
	})
}
