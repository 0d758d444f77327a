package coscheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// restPerMember is how long a gang is left alone for each of its members, after a change of its PodGroup had all of them
// tried: longer than trying them takes.
const restPerMember = 10 * time.Millisecond

// mayWake reports whether all of so many members of a PodGroup may be tried since it has changed, and notes that they are. Who changes it
// all the time has one of them tried each time, of whatever gang, and all when they have rested.
func (p *Plugin) mayWake(name types.NamespacedName, members int) bool {
	whole, now := gang{group: name}, p.now()
	if p.places.mayWake(whole, members, now) {
		return true
	}
	if p.places.alarm(whole) {
		time.AfterFunc(p.places.restsUntil(whole).Sub(now), func() {
			p.places.done(whole)
			if group := p.groups.get(name); group != nil {
				p.groupChanged(nil, group)
			}
		})
	}
	return false
}

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
