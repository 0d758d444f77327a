package coscheduling

import "time"

const (
	// settling is how long a gang evicts nobody else after it has, until it is seen that those leave.
	settling = 2 * time.Second
	// exhausted is how long there is no other search for a gang when others would have left in vain, or on the same grounds.
	exhausted = time.Minute
	// mostVain is the longest that a gang evicts nobody since it did and could not start: exhausted, and twice as long each time.
	mostVain = time.Hour
)

// settles reports whether others are about to leave for a gang.
func (p *places) settles(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && (r.underWay || now.Before(r.settles))
}

// abstains reports whether a gang evicts nobody for a while, and why, "" where that needs no words.
func (p *places) abstains(g gang, now time.Time) (abstains bool, why string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || !now.Before(r.abstains) {
		return false, ""
	}
	return true, r.keptOut
}

// waitsByChoice reports whether a gang could start, and holds out for better.
func (p *places) waitsByChoice(g gang) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.refusal.isChoice
}

// clear notes that others leave for a gang, which evicts nobody else until a time.
func (p *places) clear(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.settles, r.cleared, r.keptOut, r.guard = until, true, "", ""
}

// pause notes until when a gang evicts nobody.
func (p *places) pause(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).abstains = until
}

// inVain notes that a member was refused by another plugin. If others have left for the gang it evicts nobody for a while,
// longer each time: what keeps it out would keep it out again. What was made free it keeps for the time in which that settles:
// its members may only have been tried in an order that another plugin does not take.
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

// futile notes that nobody could make room for a gang on the grounds of its last refusal, until a time: budgets, volumes and
// those who would not leave change without a change of a node. Whom another plugin would have kept out is not asked before. guard says
// who may not leave yet.
func (p *places) futile(g gang, until time.Time, why, guard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.futile, r.futileUntil, r.guard, r.dozes = r.refusal.on, until, guard, false
	if r.keptOut = why; why != "" {
		r.abstains = until
	}
}

// isFutile reports whether nobody could make room for a gang on the grounds of its last refusal.
func (p *places) isFutile(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.futile == r.refusal.on && r.futile != (basis{}) && now.Before(r.futileUntil)
}
