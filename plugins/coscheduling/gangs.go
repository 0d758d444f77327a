package coscheduling

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
)

// gangs keeps the state of each gang with live pods, and no longer, under one lock. What a state means is decided in pkg/gang/phase; here it is
// found, changed and logged, and its next attempt gets a timer.
type gangs struct {
	mu     sync.RWMutex
	states map[gang]*gangState
	// places are the members with a place, by decision of this process or as reported.
	places map[types.UID]memberPlace
	// searches limits the searches for victims.
	searches phase.SearchTurns
	now      func() time.Time
	// wake is called when the time of an attempt has come.
	wake func(gang, phase.NextAttempt)
	// onPhaseChange, if there is one, is called with each change of phase.
	onPhaseChange func(g gang, from, to phase.Phase)
}

// memberPlace is the place of a member: how far it has come, and its node.
type memberPlace struct {
	gang  gang
	stage phase.Stage
	node  string
}

// gangState is the state of one gang, and what its next attempt begins with.
type gangState struct {
	phase.Gang
	// members are those with a place.
	members sets.Set[types.UID]
	// arrival is how the members of a PodGroup arrive, nil if nothing is known of that. It is part of the state without an owner.
	arrival *arrival
	// representative is the member that was rejected last. It is tried for the gang when there may be room. pendingClasses are the members that
	// waited then.
	representative types.NamespacedName
	pendingClasses pendingClasses
	// missedSiblings are members that reported that others are missing, and were not tried since.
	missedSiblings sets.Set[types.NamespacedName]
	// block is what is known of what rejected a member, nil for nothing.
	block *rejection.Block
	// plan is the placement of the members, nil for none. bindPlan is the plan by which the waiting members are bound.
	plan     *placement.Plan
	bindPlan *cycle.GangPlan
	// search is a search for victims that continues, nil for none.
	search *victimSearch
	// outsideDomain are members that were refused in the domain of their segment, and have no place yet.
	outsideDomain sets.Set[types.UID]
	// timer wakes the gang for an attempt, nil for none.
	timer    *time.Timer
	timerFor phase.NextAttempt
}

func (p *Plugin) newGangs() *gangs {
	return &gangs{states: map[gang]*gangState{}, places: map[types.UID]memberPlace{}, now: func() time.Time { return p.now() }, wake: p.wakeGang}
}

// stateOf returns a copy of the state of a gang: the zero state if none is known.
func (r *gangs) stateOf(g gang) phase.Gang {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.states[g]; ok {
		return s.Gang
	}
	return phase.Gang{}
}

// changeState changes the state of a gang, and creates it if necessary. changeKnown changes nothing where there is none.
func (r *gangs) changeState(g gang, change func(*phase.Gang)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applyChange(g, r.ensureState(g), func(s *gangState) { change(&s.Gang) })
}

func (r *gangs) changeKnown(g gang, change func(*phase.Gang)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.states[g]; ok {
		r.applyChange(g, s, func(s *gangState) { change(&s.Gang) })
	}
}

// applyChange is the only way in which the state of a gang changes. It logs a new phase, and sets the timer of the next attempt.
func (r *gangs) applyChange(g gang, s *gangState, what func(*gangState)) {
	now := r.now()
	before := s.PhaseAt(now)
	what(s)
	if after := s.PhaseAt(now); after != before {
		if logger := klog.Background().V(4); logger.Enabled() {
			logger.Info("A gang is in another phase", "podGroup", klog.KRef(g.group.Namespace, g.group.Name), "owner", g.owner,
				"from", before.String(), "state", s.DescribeState(now))
		}
		if r.onPhaseChange != nil {
			r.onPhaseChange(g, before, after)
		}
	}
	r.setTimer(g, s, now)
}

// setTimer sets the timer of the next attempt of a gang, unless it is set.
func (r *gangs) setTimer(g gang, s *gangState, now time.Time) {
	next := s.EarliestAttempt()
	if next == s.timerFor {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.timerFor, s.timer = next, nil; next.Reason != phase.NoReason {
		s.timer = time.AfterFunc(next.At.Sub(now), func() { r.wake(g, next) })
	}
}

// planAttempt has a gang tried at a time for a reason, by its timer. An attempt for another reason may come before.
func (r *gangs) planAttempt(g gang, reason phase.Reason, at time.Time) {
	r.changeState(g, func(s *phase.Gang) { s.PlanAttempt(reason, at) })
}

// takeDue returns the reasons of the attempts whose time has come with a planned one. It asks no clock: that of decisions may be behind that of
// timers.
func (r *gangs) takeDue(g gang, planned phase.NextAttempt) []phase.Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok {
		return nil
	}
	defer r.setTimer(g, s, planned.At)
	return s.TakeDue(planned.At)
}

// ensureState returns the state of a gang, and creates it if necessary.
func (r *gangs) ensureState(g gang) *gangState {
	s, ok := r.states[g]
	if !ok {
		s = &gangState{members: sets.New[types.UID]()}
		r.states[g] = s
	}
	return s
}

// movePod gives a member a place, or another one.
func (r *gangs) movePod(g gang, pod types.UID, node string, to phase.Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.places[pod]
	if before.stage != phase.NoPlace && before.gang != g {
		r.removePod(pod)
		before = memberPlace{}
	}
	r.applyChange(g, r.ensureState(g), func(s *gangState) {
		s.MoveMember(before.stage, to)
		s.members.Insert(pod)
		s.outsideDomain.Delete(pod)
		r.places[pod] = memberPlace{gang: g, stage: to, node: node}
	})
}

// recordBinding records a member that the API server reports as bound, of a gang with the given minMember.
func (r *gangs) recordBinding(g gang, pod types.UID, node string, minMember int) {
	r.movePod(g, pod, node, phase.BoundStage)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applyChange(g, r.ensureState(g), func(s *gangState) {
		lost := r.places[s.LostPod()]
		s.RecordBound(pod, minMember, lost.gang == g && lost.stage == phase.BoundStage)
	})
}

// forgetPod removes a pod's place. It returns the pod's gang, and false if it had no place.
func (r *gangs) forgetPod(pod types.UID) (gang, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, ok := r.removePod(pod)
	return g, ok
}

func (r *gangs) removePod(pod types.UID) (gang, bool) {
	at, ok := r.places[pod]
	if !ok {
		return gang{}, false
	}
	r.applyChange(at.gang, r.states[at.gang], func(s *gangState) {
		delete(r.places, pod)
		s.members.Delete(pod)
		s.MoveMember(at.stage, phase.NoPlace)
		s.RecordLeft()
	})
	return at.gang, true
}

// takeWaiting removes and returns all waiting members of a gang with their nodes, and their plan. Each member is returned once, so if many give
// up one after the other, only the first processes its siblings.
func (r *gangs) takeWaiting(g gang) (map[types.UID]string, *cycle.GangPlan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok {
		return nil, &cycle.GangPlan{}
	}
	plan, taken := cmp.Or(s.bindPlan, &cycle.GangPlan{}), map[types.UID]string{}
	s.bindPlan = nil
	if s.Waiting == 0 {
		return taken, plan
	}
	r.applyChange(g, s, func(s *gangState) {
		for pod := range s.members {
			if at := r.places[pod]; at.stage == phase.WaitingStage {
				taken[pod] = at.node
				delete(r.places, pod)
				s.members.Delete(pod)
				s.MoveMember(phase.WaitingStage, phase.NoPlace)
			}
		}
	})
	return taken, plan
}

// recordSuccess clears the failures of a gang that has found its places.
func (r *gangs) recordSuccess(g gang) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.states[g]; ok {
		r.applyChange(g, s, func(s *gangState) {
			s.plan, s.block, s.missedSiblings = nil, nil, nil
			s.RecordSuccess()
		})
	}
}

// gangBindPlan returns the plan of the members that wait in Permit, and of the last member that they wait for.
func (r *gangs) gangBindPlan(g gang) *cycle.GangPlan {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.bindPlan == nil {
		s.bindPlan = &cycle.GangPlan{}
	}
	return s.bindPlan
}

// hasPod reports whether a pod has a place by a decision of this process.
func (r *gangs) hasPod(pod types.UID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.places[pod]
	return ok
}

// hasBegun reports whether some members of a gang have a place, but fewer than it needs. isComplete reports whether as many have one as it needs.
// Both are asked of each waiting pod when something changes, so the state is not copied.
func (r *gangs) hasBegun(g gang, minMember int) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.states[g]
	return ok && s.HasBegun(minMember)
}

func (r *gangs) isComplete(g gang, minMember int) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.states[g]
	return ok && s.IsComplete(minMember)
}

// nodesOf returns the nodes of members that have places, as far as they are known.
func (r *gangs) nodesOf(members []*corev1.Pod) (nodes []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, pod := range members {
		if node := cmp.Or(pod.Spec.NodeName, r.places[pod.UID].node); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// mayBeGone records that a member of a gang may have left, and reports whether it may have been the last.
func (r *gangs) mayBeGone(g gang) (gone bool) {
	r.changeKnown(g, func(s *phase.Gang) { gone = s.MayBeGone() })
	return gone
}

// dropGang removes a gang without pods.
func (r *gangs) dropGang(g gang) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok {
		return
	}
	for pod := range s.members {
		delete(r.places, pod)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.arrival.stopTimer()
	r.searches.ForgetSearcher(searcherOf(g), r.now())
	delete(r.states, g)
}

// searcherOf identifies a gang among those that search for victims.
func searcherOf(g gang) phase.Searcher {
	return phase.Searcher{Namespace: g.group.Namespace, Name: gangJobName(g)}
}

// nextSearchTime returns when a gang may search for victims; not after now if it may do so now.
func (r *gangs) nextSearchTime(g gang, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.searches.NextSearchTime(searcherOf(g), now)
}

// backOffSearch records that a gang has visited so many pods without finding victims. endSearches records that it has found them.
func (r *gangs) backOffSearch(g gang, podsSearched int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.searches.BackOff(searcherOf(g), podsSearched, r.now())
}

func (r *gangs) endSearches(g gang) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.searches.ForgetSearcher(searcherOf(g), r.now())
}
