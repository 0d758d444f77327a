package coscheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// restPerMember is how long a gang is left alone for each of its members, after a change of its PodGroup activated all of them. It is longer
// than trying them takes.
const restPerMember = 10 * time.Millisecond

// mayActivateAll reports whether all members of a changed PodGroup may be activated, and records that they are. If a PodGroup changes all the
// time, one member of any of its gangs is activated for each change, and all of them after the rest.
func (p *Plugin) mayActivateAll(name types.NamespacedName, members int) bool {
	whole, now := gang{group: name}, p.now()
	if p.gangStates.mayActivateAll(whole, members, now) {
		return true
	}
	if p.gangStates.startTimer(whole) {
		time.AfterFunc(p.gangStates.restUntil(whole).Sub(now), func() {
			p.gangStates.endTimer(whole)
			if group := p.groups.getGroup(name); group != nil {
				p.groupChanged(nil, group)
			}
		})
	}
	return false
}

func (p *gangStates) mayActivateAll(g gang, members int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if now.Before(r.restUntil) {
		return false
	}
	r.restUntil = now.Add(time.Duration(members) * restPerMember)
	return true
}

// restGang records that so many members are activated, behind other pods that arrive in the meantime.
func (p *gangStates) restGang(g gang, members int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if until := now.Add(time.Duration(members) * restPerMember); until.After(r.restUntil) {
		r.restUntil = until
	}
}

// restUntil returns until when other pods come before a gang whose PodGroup changed: zero for none.
func (p *gangStates) restUntil(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.restUntil
	}
	return time.Time{}
}
