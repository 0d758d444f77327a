package coscheduling

import "time"

const (
	// evictionSettleTime is how long a gang evicts no further pods after an eviction, until its victims are seen to leave.
	evictionSettleTime = 2 * time.Second
	// baseBackoff is how long a gang does not search for victims again, either after an eviction in vain or while the grounds of the last search
	// hold.
	baseBackoff = time.Minute
	// maxBackoff is the longest backoff after an eviction that did not let the gang start. The backoff begins at baseBackoff and doubles each
	// time.
	maxBackoff = time.Hour
)

// awaitsDepartures reports whether victims are about to leave for a gang.
func (p *gangStates) awaitsDepartures(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && (r.writesPending || now.Before(r.departuresUntil))
}

// isPreemptionBlocked reports whether a gang is backing off from preemption, and why. The reason is "" if none needs to be shown.
func (p *gangStates) isPreemptionBlocked(g gang, now time.Time) (abstains bool, why string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || !now.Before(r.preemptionBackoffUntil) {
		return false, ""
	}
	return true, r.backoffReason
}

// waitsByChoice reports whether a gang could start, and waits for a better placement.
func (p *gangStates) waitsByChoice(g gang) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.refusal.isChoice
}

// recordEvictions records that victims leave for a gang. The gang evicts no further pods until the given time.
func (p *gangStates) recordEvictions(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	r.departuresUntil, r.hasEvicted, r.backoffReason, r.protectionReason = until, true, "", ""
}

// pausePreemption sets the time until which a gang evicts no pods.
func (p *gangStates) pausePreemption(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).preemptionBackoffUntil = until
}

// backOffPreemption records that another plugin rejected a member. If pods were already evicted for the gang, preemption backs off, longer each
// time: the same obstacle would keep the gang out again. The gang keeps the freed places for the settle time, because its members may only have
// been tried in an order that the other plugin does not accept.
func (p *gangStates) backOffPreemption(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || !r.hasEvicted {
		return
	}
	r.preemptionBackoff = min(max(baseBackoff, 2*r.preemptionBackoff), maxBackoff)
	r.preemptionBackoffUntil, r.hasEvicted = now.Add(r.preemptionBackoff), false
}

// markUnhelpful records that no eviction could make room for a gang on the grounds of its last refusal, until a time. Budgets, volumes and the pods
// that may not be evicted can change without a change of a node. Pods that another plugin would keep out are not checked earlier. guard says
// which pods may not leave yet.
func (p *gangStates) markUnhelpful(g gang, until time.Time, why, guard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	r.unhelpfulBasis, r.unhelpfulUntil, r.protectionReason, r.timerDisabled = r.refusal.on, until, guard, false
	if r.backoffReason = why; why != "" {
		r.preemptionBackoffUntil = until
	}
}

// isUnhelpful reports whether no eviction could make room for a gang on the grounds of its last refusal.
func (p *gangStates) isUnhelpful(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.unhelpfulBasis == r.refusal.on && r.unhelpfulBasis != (basis{}) && now.Before(r.unhelpfulUntil)
}
