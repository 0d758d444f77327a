package coscheduling

import "time"

const (
	// settling is how long a gang evicts no further pods after an eviction, until its victims are seen to leave.
	settling = 2 * time.Second
	// exhausted is how long a gang does not search for victims again, either after an eviction in vain or while the grounds of the last search
	// hold.
	exhausted = time.Minute
	// mostVain is the longest backoff after an eviction that did not let the gang start. The backoff begins at baseBackoff and doubles each
	// time.
	mostVain = time.Hour
)

// settles reports whether victims are about to leave for a gang.
func (p *places) settles(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && (r.underWay || now.Before(r.settles))
}

// abstains reports whether a gang is backing off from preemption, and why. The reason is "" if none needs to be shown.
func (p *places) abstains(g gang, now time.Time) (abstains bool, why string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || !now.Before(r.abstains) {
		return false, ""
	}
	return true, r.keptOut
}

// waitsByChoice reports whether a gang could start, and waits for a better placement.
func (p *places) waitsByChoice(g gang) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.refusal.isChoice
}

// clear records that victims leave for a gang. The gang evicts no further pods until the given time.
func (p *places) clear(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.settles, r.cleared, r.keptOut, r.guard = until, true, "", ""
}

// pause sets the time until which a gang evicts no pods.
func (p *places) pause(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).abstains = until
}

// inVain records that another plugin rejected a member. If pods were already evicted for the gang, preemption backs off, longer each
// time: the same obstacle would keep the gang out again. The gang keeps the freed places for the settle time, because its members may only have
// been tried in an order that the other plugin does not accept.
func (p *places) inVain(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || !r.cleared {
		return
	}
	r.vain = min(max(exhausted, 2*r.vain), mostVain)
	r.abstains, r.cleared = now.Add(r.vain), false
}

// futile records that no eviction could make room for a gang on the grounds of its last refusal, until a time. Budgets, volumes and the pods
// that may not be evicted can change without a change of a node. Pods that another plugin would keep out are not checked earlier. guard says
// which pods may not leave yet.
func (p *places) futile(g gang, until time.Time, why, guard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.futile, r.futileUntil, r.guard, r.dozes = r.refusal.on, until, guard, false
	if r.keptOut = why; why != "" {
		r.abstains = until
	}
}

// isFutile reports whether no eviction could make room for a gang on the grounds of its last refusal.
func (p *places) isFutile(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.futile == r.refusal.on && r.futile != (basis{}) && now.Before(r.futileUntil)
}
