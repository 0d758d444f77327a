package coscheduling

import "time"

// restPerMember is how long a gang is left alone for each of its members, after a change of its PodGroup had all of them
// tried: longer than trying them takes.
const restPerMember = 10 * time.Millisecond

// mayWake reports whether all of so many members may be tried since their PodGroup has changed, and notes that they are. Who
// changes it all the time has one member tried each time.
func (p *places) mayWake(g gang, members int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if now.Before(r.rests) {
		return false
	}
	r.rests = now.Add(time.Duration(members) * restPerMember)
	return true
}

// rest notes that so many members are tried, after those of others that come meanwhile.
func (p *places) rest(g gang, members int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if until := now.Add(time.Duration(members) * restPerMember); until.After(r.rests) {
		r.rests = until
	}
}

// restsUntil is the time before which pods come first that come after a change of a gang's PodGroup: zero for none.
func (p *places) restsUntil(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.rests
	}
	return time.Time{}
}
