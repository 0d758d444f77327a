package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// places is who of which gang has a place, as far as this process decided it or was told, and what came of the gang's last
// attempt. It holds an entry for each gang with live pods and no longer.
type places struct {
	mu    sync.RWMutex
	gangs map[gang]*record
	pods  map[types.UID]gang
	// nodes are where pods have their places that this process knows of.
	nodes map[types.UID]string
}

// record is what is kept of one gang.
type record struct {
	// waiting have a place and wait in Permit for the others, passed were let go and are on their way to their nodes. bound
	// are those that the API server has told of.
	waiting, passed, bound sets.Set[types.UID]
	// failed is when a member found no place last.
	failed time.Time
	// refusal is the last one for want of room.
	refusal refusal
	// scout is the member that was turned away last, and is tried for all when there may be room.
	scout types.NamespacedName
	// seekers are those that waited then.
	seekers seekers
	// rests is until when the gang is left alone that was tried as a whole because its PodGroup had changed.
	rests time.Time
	// plan is where members are to go, nil for none, and together by what those are bound that wait.
	plan     *plan
	together *cycle.GangPlan
	// settles is until when others are about to leave for the gang, abstains until when it has nobody evicted, futile on what
	// grounds nobody could be, and until when that counts. keptOut says what would have kept the gang out all the same, "" for
	// nothing.
	settles, abstains, futileUntil time.Time
	futile                         basis
	keptOut                        string
	// hunt is what is kept of a search for who leaves that goes on, nil for none.
	hunt *hunt
	// underWay says that it is being written who leaves for the gang.
	underWay bool
	// guard says that others may not leave for the gang yet, "" where that is not so.
	guard string
	// dozes says that no timer has the gang tried when that may be over.
	dozes bool
	// cleared says that others have left for the gang since it failed last, vain how long it waits since the last time that
	// was for nothing.
	cleared bool
	vain    time.Duration
	refused refused
	outside outside
	// putOff is how long the gang waits since a write for it failed, longer each time; zero since one did not.
	putOff time.Duration
	// half is since when some members are bound, and there is no room for the others; zero where that is not so.
	half time.Time
	// partial says that the gang was found half placed, and has not been whole since, whole that it was seen whole and has had bound
	// members ever since.
	partial, whole bool
	// wholeOf is of how many members it was whole last.
	wholeOf int
	// wakes is when the members are tried that hold out for a place.
	wakes time.Time
	// there is how many members there were when they were counted last, less those that may have left since: no more than there are.
	there int
	// strayed are members that were refused in the domain of their segment, and have no place yet.
	strayed sets.Set[types.UID]
	// alarmed is set while a timer runs that has the members tried again.
	alarmed bool
}

// refusal is a verdict that there is no room, and what it was found on.
type refusal struct {
	on     basis
	reason string
	// isChoice says that there is room, and the gang holds out for better.
	isChoice bool
}

// basis is all that a verdict on the room for a gang depends on.
type basis struct {
	// members is the fingerprint of those that wait.
	members uint64
	// nodes and generation are the state of all nodes: how many, and the last change of one.
	nodes      int
	generation int64
	// nominated is the fingerprint of the pods for which room is kept.
	nominated uint64
	// closed is the fingerprint of what is kept from those that wait.
	closed uint64
	// promised is the version of what was promised to jobs.
	promised uint64
	// quotas changes with the GPUQuotas.
	quotas uint64
	// group is the PodGroup's revision.
	group  string
	placed int
	// shunned is how many nodes another plugin rejected for a member.
	shunned int
	// holdsOut is until when the gang waits for a place in one domain, zero where it does not.
	holdsOut time.Time
}

func (p *places) wait(g gang, pod types.UID, node string) {
	p.put(g, pod, node, func(r *record) sets.Set[types.UID] { return r.waiting })
}
func (p *places) pass(g gang, pod types.UID, node string) {
	p.put(g, pod, node, func(r *record) sets.Set[types.UID] { return r.passed })
}
func (p *places) bind(g gang, pod types.UID, node string) {
	p.put(g, pod, node, func(r *record) sets.Set[types.UID] { return r.bound })
}

// put moves a pod to one of the sets of its gang.
func (p *places) put(g gang, pod types.UID, node string, set func(*record) sets.Set[types.UID]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(pod)
	set(p.record(g)).Insert(pod)
	p.record(g).strayed.Delete(pod)
	if p.pods == nil {
		p.pods, p.nodes = map[types.UID]gang{}, map[types.UID]string{}
	}
	p.pods[pod], p.nodes[pod] = g, node
}

// record returns the entry of a gang, a new one if there is none.
func (p *places) record(g gang) *record {
	if r, ok := p.gangs[g]; ok {
		return r
	}
	r := &record{waiting: sets.New[types.UID](), passed: sets.New[types.UID](), bound: sets.New[types.UID]()}
	if p.gangs == nil {
		p.gangs = map[gang]*record{}
	}
	p.gangs[g] = r
	return r
}

// alarm reports whether a timer is to be started for a gang, and notes that it is. done notes that it has ended.
func (p *places) alarm(g gang) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	first := !r.alarmed
	r.alarmed = true
	return first
}

func (p *places) done(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.alarmed = false
	}
}

// forget takes a pod's place away. It returns the pod's gang, and false if it had no place.
func (p *places) forget(pod types.UID) (gang, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, ok := p.remove(pod)
	if r := p.gangs[g]; ok && r.bound.Len() == 0 { // who starts now starts anew
		r.whole, r.partial = false, false
	}
	return g, ok
}

func (p *places) remove(pod types.UID) (gang, bool) {
	g, ok := p.pods[pod]
	if !ok {
		return gang{}, false
	}
	delete(p.pods, pod)
	delete(p.nodes, pod)
	r := p.gangs[g]
	r.waiting.Delete(pod)
	r.passed.Delete(pod)
	r.bound.Delete(pod)
	return g, true
}

// takeWaiting ends the wait of all members of a gang, and returns them with their nodes, and their plan. Each is returned once, so that of
// many that give up one after the other only the first looks for the others.
func (p *places) takeWaiting(g gang) (map[types.UID]string, *cycle.GangPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return nil, &cycle.GangPlan{}
	}
	plan := r.together
	if r.together = nil; plan == nil {
		plan = &cycle.GangPlan{}
	}
	taken := make(map[types.UID]string, r.waiting.Len())
	for pod := range r.waiting {
		taken[pod] = p.nodes[pod]
		delete(p.pods, pod)
		delete(p.nodes, pod)
	}
	r.waiting = sets.New[types.UID]()
	return taken, plan
}

// holds says whether a pod has a place by a decision of this process.
func (p *places) holds(pod types.UID) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.pods[pod]
	return ok
}

// waitingOf is how many members of a gang wait for the others.
func (p *places) waitingOf(g gang) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.waiting.Len()
	}
	return 0
}

// begun says whether some members of a gang have a place, and fewer than it needs, or than it had when it was whole.
func (p *places) begun(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok {
		return false
	}
	if r.whole { // those that it was made larger by since stand in line like others
		want = min(want, r.wholeOf)
	}
	return r.placed() > 0 && r.placed() < want
}

// stands says whether as many members of a gang have a place as it needs.
func (p *places) stands(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.placed() >= want
}

func (r *record) placed() int { return r.waiting.Len() + r.passed.Len() + r.bound.Len() }

// fail notes when a member found no place.
func (p *places) fail(g gang, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).failed = at
}

// succeed forgets that the gang failed to find places. What it evicted for them may have been in vain all the same, until it is bound.
func (p *places) succeed(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.failed, r.refusal, r.plan, r.guard, r.putOff, r.partial = time.Time{}, refusal{}, nil, "", 0, false
		r.outside = outside{}
	}
}

// failed returns when a member found no place last, the zero time for never.
func (p *places) failed(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.failed
	}
	return time.Time{}
}

// refuse keeps a verdict for the other members.
func (p *places) refuse(g gang, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).refusal = r
}

// refused returns the verdict that another member got on the same grounds, "" for none.
func (p *places) refused(g gang, on basis) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || r.refusal.on != on {
		return ""
	}
	return r.refusal.reason
}

// mayBeGone notes that a member may have left, and reports whether it may have been the last: something is kept of the gang, no member
// has a place, and so many have left as there were.
func (p *places) mayBeGone(g gang) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return false
	}
	r.there--
	return r.placed() == 0 && r.there <= 0
}

// stay notes how many members there are.
func (p *places) stay(g gang, there int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.there = there
	}
}

// drop forgets a gang of which no pod is left.
func (p *places) drop(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return
	}
	for _, set := range []sets.Set[types.UID]{r.waiting, r.passed, r.bound} {
		for pod := range set {
			delete(p.pods, pod)
			delete(p.nodes, pod)
		}
	}
	delete(p.gangs, g)
}
