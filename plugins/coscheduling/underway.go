package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// putsOff notes that a write for a gang has failed, and returns when it is tried once more.
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

// begins notes that it is written for a gang who leaves. An API server that takes its time does not have others leave meanwhile.
func (p *places) begins(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).underWay = true
}

// carriedOut notes that all was written for a gang. Where others have left it is some time until that is seen.
func (p *places) carriedOut(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		if r.putOff, r.underWay = 0, false; r.cleared {
			r.settles = now.Add(settling)
		}
	}
}

// standsBack notes that nobody leaves for a gang as was decided, since it would not start.
func (p *places) standsBack(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.settles, r.cleared, r.underWay = time.Time{}, false, false
	}
}

// wasPutOff is how long a gang waited since a write failed last, zero since one did not.
func (p *places) wasPutOff(g gang) time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.putOff
	}
	return 0
}

// hasPlace reports whether a member that is to come to a place that others leave has got one meanwhile, so that its gang needs none. It is not
// asked any more once some have left: half of those who leave together would stay.
func (p *Plugin) hasPlace(members []*corev1.Pod, move *clearance) bool {
	return slices.ContainsFunc(members, func(pod *corev1.Pod) bool {
		there := p.living(nameOf(pod), pod.UID)
		return move.to[pod.UID] != "" && there != nil && there.Spec.NodeName != ""
	})
}
