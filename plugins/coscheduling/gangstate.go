package coscheduling

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// gangStates records which pods of which gangs have a place, by decision of this process or as reported, and the result of each gang's last attempt.
// It has an entry for each gang with live pods and no longer.
type gangStates struct {
	mu    sync.RWMutex
	gangs map[gang]*gangState
	pods  map[types.UID]gang
	// nodes are the known nodes of placed pods.
	nodes map[types.UID]string
}

// gangState is the state of one gang.
type gangState struct {
	// waiting have a place and wait in Permit for the others. passed were admitted and are being bound. bound were reported by the API server.
	waiting, passed, bound sets.Set[types.UID]
	// lastFailure is when a member last found no place.
	lastFailure time.Time
	// refusal is the last verdict that there is no room.
	refusal refusal
	// representative is the member that was rejected last. It is tried for the gang when there may be room.
	representative types.NamespacedName
	// pendingClasses are the members that waited then.
	pendingClasses pendingClasses
	// restUntil is until when the gang is left alone after a change of its PodGroup had all of it tried.
	restUntil time.Time
	// plan is the placement of the members, nil for none. bindPlan is the plan by which the waiting members are bound.
	plan     *plan
	bindPlan *cycle.GangPlan
	// departuresUntil is until when victims are expected to leave for the gang. preemptionBackoffUntil is until when the gang evicts no pods.
	// unhelpfulBasis is the basis on which no eviction helps, and unhelpfulUntil how long that counts. backoffReason says what would have kept
	// the gang out all the same, "" for nothing.
	departuresUntil, preemptionBackoffUntil, unhelpfulUntil time.Time
	unhelpfulBasis                                          basis
	backoffReason                                           string
	// search is a search for victims that continues, nil for none.
	search *victimSearch
	// writesPending says that evictions for the gang are being written.
	writesPending bool
	// protectionReason says why victims may not leave for the gang yet, "" if they may.
	protectionReason string
	// timerDisabled says that no timer activates the gang when that may be over.
	timerDisabled bool
	// hasEvicted says that pods were evicted for the gang since its last failure. preemptionBackoff is its current backoff after evictions in vain.
	hasEvicted        bool
	preemptionBackoff time.Duration
	lostPlace         lostPlace
	rejection         filterRejection
	// writeBackoff is the backoff after failed writes for the gang, longer each time; zero after a successful one.
	writeBackoff time.Duration
	// partialSince is since when some members are bound without room for the others; zero otherwise.
	partialSince time.Time
	// partial says that the gang was found partially bound, and has not been whole since. whole says that it was seen whole, and has had bound
	// members ever since.
	partial, whole bool
	// wholeSize is the size at which the gang was last whole.
	wholeSize int
	// wakeTime is when a timer activates the members.
	wakeTime time.Time
	// liveMembers is the number of members at the last count, less those that may have left since: a lower bound.
	liveMembers int
	// outsideDomain are members that were refused in the domain of their segment, and have no place yet.
	outsideDomain sets.Set[types.UID]
	// timerRunning is set while a timer runs that will activate the members.
	timerRunning bool
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
	// reservations is the fingerprint of the node reservations that apply to the waiting members.
	reservations uint64
	// startReservations is the version of the start reservations.
	startReservations uint64
	// quotas changes with the GPUQuotas.
	quotas uint64
	// group is the PodGroup's revision.
	group  string
	placed int
	// excludedNodes is how many nodes another plugin rejected for a member.
	excludedNodes int
	// holdOutUntil is until when the gang waits for a placement in one domain, zero if it does not.
	holdOutUntil time.Time
}

func (p *gangStates) markWaiting(g gang, pod types.UID, node string) {
	p.movePod(g, pod, node, func(r *gangState) sets.Set[types.UID] { return r.waiting })
}
func (p *gangStates) markPassed(g gang, pod types.UID, node string) {
	p.movePod(g, pod, node, func(r *gangState) sets.Set[types.UID] { return r.passed })
}
func (p *gangStates) markBound(g gang, pod types.UID, node string) {
	p.movePod(g, pod, node, func(r *gangState) sets.Set[types.UID] { return r.bound })
}

// movePod moves a pod to one of the sets of its gang.
func (p *gangStates) movePod(g gang, pod types.UID, node string, set func(*gangState) sets.Set[types.UID]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removePod(pod)
	set(p.ensureState(g)).Insert(pod)
	p.ensureState(g).outsideDomain.Delete(pod)
	if p.pods == nil {
		p.pods, p.nodes = map[types.UID]gang{}, map[types.UID]string{}
	}
	p.pods[pod], p.nodes[pod] = g, node
}

// ensureState returns the state of a gang, and creates it if necessary.
func (p *gangStates) ensureState(g gang) *gangState {
	if r, ok := p.gangs[g]; ok {
		return r
	}
	r := &gangState{waiting: sets.New[types.UID](), passed: sets.New[types.UID](), bound: sets.New[types.UID]()}
	if p.gangs == nil {
		p.gangs = map[gang]*gangState{}
	}
	p.gangs[g] = r
	return r
}

// startTimer reports whether a timer is to be started for a gang, and marks it as started. endTimer marks it as ended.
func (p *gangStates) startTimer(g gang) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	first := !r.timerRunning
	r.timerRunning = true
	return first
}

func (p *gangStates) endTimer(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.timerRunning = false
	}
}

// forgetPod removes a pod's place. It returns the pod's gang, and false if it had no place.
func (p *gangStates) forgetPod(pod types.UID) (gang, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, ok := p.removePod(pod)
	if r := p.gangs[g]; ok && r.bound.Len() == 0 { // the next start is a new one
		r.whole, r.partial = false, false
	}
	return g, ok
}

func (p *gangStates) removePod(pod types.UID) (gang, bool) {
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
func (p *gangStates) takeWaiting(g gang) (map[types.UID]string, *cycle.GangPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return nil, &cycle.GangPlan{}
	}
	plan := r.bindPlan
	if r.bindPlan = nil; plan == nil {
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

// hasPod reports whether a pod has a place by a decision of this process.
func (p *gangStates) hasPod(pod types.UID) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.pods[pod]
	return ok
}

// countWaiting returns how many members of a gang wait for the others.
func (p *gangStates) countWaiting(g gang) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.waiting.Len()
	}
	return 0
}

// hasBegun reports whether some members of a gang have a place, but fewer than it needs, or than it had when it was whole.
func (p *gangStates) hasBegun(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok {
		return false
	}
	if r.whole { // members added by a later enlargement are queued like any other pod
		want = min(want, r.wholeSize)
	}
	return r.countPlaced() > 0 && r.countPlaced() < want
}

// isComplete reports whether as many members of a gang have a place as it needs.
func (p *gangStates) isComplete(g gang, want int) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.countPlaced() >= want
}

func (r *gangState) countPlaced() int { return r.waiting.Len() + r.passed.Len() + r.bound.Len() }

// recordFailure records when a member found no place.
func (p *gangStates) recordFailure(g gang, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).lastFailure = at
}

// recordSuccess clears the failures of a gang that has found its places. Its evictions may still have been in vain, until it is bound.
func (p *gangStates) recordSuccess(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.lastFailure, r.refusal, r.plan, r.protectionReason, r.writeBackoff, r.partial = time.Time{}, refusal{}, nil, "", 0, false
		r.rejection = filterRejection{}
	}
}

// lastFailure returns when a member last found no place, the zero time for never.
func (p *gangStates) lastFailure(g gang) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.lastFailure
	}
	return time.Time{}
}

// recordRefusal stores a verdict for the other members.
func (p *gangStates) recordRefusal(g gang, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).refusal = r
}

// refusalReason returns the verdict for another member on the same basis, "" for none.
func (p *gangStates) refusalReason(g gang, on basis) string {
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
func (p *gangStates) mayBeGone(g gang) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok {
		return false
	}
	r.liveMembers--
	return r.countPlaced() == 0 && r.liveMembers <= 0
}

// setLiveMembers sets the number of members.
func (p *gangStates) setLiveMembers(g gang, there int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok {
		r.liveMembers = there
	}
}

// dropGang removes a gang without pods.
func (p *gangStates) dropGang(g gang) {
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
