package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// places records which pods of which gangs have a place, by decision of this process or as reported, and the result of each gang's last attempt.
// It has an entry for each gang with live pods and no longer.
type places struct {
	mu    sync.RWMutex
	gangs map[gang]*record
	pods  map[types.UID]gang
	// nodes are the known nodes of placed pods.
	nodes map[types.UID]string
}

// record is the state of one gang.
type record struct {
	// waiting have a place and wait in Permit for the others. passed were admitted and are being bound. bound were reported by the API server.
	waiting, passed, bound sets.Set[types.UID]
	// failed is when a member last found no place.
	failed time.Time
	// refusal is the last verdict that there is no room.
	refusal refusal
	// scout is the member that was rejected last. It is tried for the gang when there may be room.
	scout types.NamespacedName
	// seekers are the members that waited then.
	seekers seekers
	// rests is until when the gang is left alone after a change of its PodGroup had all of it tried.
	rests time.Time
	// plan is the placement of the members, nil for none. bindPlan is the plan by which the waiting members are bound.
	plan     *plan
	together *cycle.GangPlan
	// settles is until when victims are expected to leave for the gang. preemptionBackoffUntil is until when the gang evicts no pods.
	// unhelpfulBasis is the basis on which no eviction helps, and unhelpfulUntil how long that counts. backoffReason says what would have kept
	// the gang out all the same, "" for nothing.
	settles, abstains, futileUntil time.Time
	futile                         basis
	keptOut                        string
	// hunt is a search for victims that continues, nil for none.
	hunt *hunt
	// underWay says that evictions for the gang are being written.
	underWay bool
	// guard says why victims may not leave for the gang yet, "" if they may.
	guard string
	// dozes says that no timer activates the gang when that may be over.
	dozes bool
	// cleared says that pods were evicted for the gang since its last failure. preemptionBackoff is its current backoff after evictions in vain.
	cleared bool
	vain    time.Duration
	refused refused
	outside outside
	// putOff is the backoff after failed writes for the gang, longer each time; zero after a successful one.
	putOff time.Duration
	// half is since when some members are bound without room for the others; zero otherwise.
	half time.Time
	// partial says that the gang was found partially bound, and has not been whole since. whole says that it was seen whole, and has had bound
	// members ever since.
	partial, whole bool
	// wholeOf is the size at which the gang was last whole.
	wholeOf int
	// wakes is when a timer activates the members.
	wakes time.Time
	// there is the number of members at the last count, less those that may have left since: a lower bound.
	there int
	// strayed are members that were refused in the domain of their segment, and have no place yet.
	strayed sets.Set[types.UID]
	// alarmed is set while a timer runs that will activate the members.
	alarmed bool
}

// refusal is a verdict that there is no room, and its basis.
type refusal struct {
	on     basis
	reason string
	// isChoice says that there is room, and the gang waits for a better placement.
	isChoice bool
}

// basis is everything that a verdict on the room for a gang depends on.
type basis struct {
	// members is the fingerprint of the waiting members.
	members uint64
	// nodes and generation are the state of all nodes: their number, and the latest change.
	nodes      int
	generation int64
	// nominated is the fingerprint of the nominated pods.
	nominated uint64
	// closed is the fingerprint of the node reservations that apply to the waiting members.
	closed uint64
	// promised is the version of the start reservations.
	promised uint64
	// quotas changes with the GPUQuotas.
	quotas uint64
	// group is the PodGroup's revision.
	group  string
	placed int
	// shunned is how many nodes another plugin rejected for a member.
	shunned int
	// holdsOut is until when the gang waits for a placement in one domain, zero if it does not.
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

// record returns the state of a gang, and creates it if necessary.
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

// alarm reports whether a timer is to be started for a gang, and marks it as started. endTimer marks it as ended.
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

// forget removes a pod's place. It returns the pod's gang, and false if it had no place.
func (p *places) forget(pod types.UID) (gang, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, ok := p.remove(pod)
	if r := p.gangs[g]; ok && r.bound.Len() == 0 { // the next start is a new one
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

// takeWaiting removes and returns all waiting members of a gang with their nodes, and their plan. Each member is returned once, so if many give
// up one after the other, only the first processes its siblings.
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

// holds reports whether a pod has a place by a decision of this process.
func (p *places) holds(pod types.UID) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.pods[pod]
	return ok
}

// waitingOf returns how many members of a gang wait for the others.
func (p *places) waitingOf(g gang) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.waiting.Len()
	}
	return 0
}

// begun reports whether some members of a gang have a place, but fewer than it needs, or than it had when it was whole.
func (p *places) begun(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok {
		return false
	}
	if r.whole { // members added by a later enlargement are queued like any other pod
		want = min(want, r.wholeOf)
	}
	return r.placed() > 0 && r.placed() < want
}

// stands reports whether as many members of a gang have a place as it needs.
func (p *places) stands(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.placed() >= want
}

func (r *record) placed() int { return r.waiting.Len() + r.passed.Len() + r.bound.Len() }

// fail records when a member found no place.
func (p *places) fail(g gang, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).failed = at
}

// succeed clears the failures of a gang that has found its places. Its evictions may still have been in vain, until it is bound.
func (p *places) succeed(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.failed, r.refusal, r.plan, r.guard, r.putOff, r.partial = time.Time{}, refusal{}, nil, "", 0, false
		r.outside = outside{}
	}
}

// failed returns when a member last found no place, the zero time for never.
func (p *places) failed(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.failed
	}
	return time.Time{}
}

// refuse stores a verdict for the other members.
func (p *places) refuse(g gang, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).refusal = r
}

// refused returns the verdict for another member on the same basis, "" for none.
func (p *places) refused(g gang, on basis) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || r.refusal.on != on {
		return ""
	}
	return r.refusal.reason
}

// mayBeGone records that a member may have left, and reports whether it may have been the last: state exists for the gang, no member has a
// place, and as many have left as there were.
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

// stay sets the number of members.
func (p *places) stay(g gang, there int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.there = there
	}
}

// drop removes a gang without pods.
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
