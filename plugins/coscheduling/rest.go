package coscheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// restPerMember is how long a gang is left alone for each of its members, after a change of its PodGroup activated all of them. It is longer
// than trying them takes.
const restPerMember = 10 * time.Millisecond

// mayWake reports whether all members of a changed PodGroup may be activated, and records that they are. If a PodGroup changes all the
// time, one member of any of its gangs is activated for each change, and all of them after the rest.
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

// rest records that so many members are activated, behind other pods that arrive in the meantime.
func (p *places) rest(g gang, members int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if until := now.Add(time.Duration(members) * restPerMember); until.After(r.rests) {
		r.rests = until
	}
}

// restsUntil returns until when other pods come before a gang whose PodGroup changed: zero for none.
func (p *places) restsUntil(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.rests
	}
	return time.Time{}
}
