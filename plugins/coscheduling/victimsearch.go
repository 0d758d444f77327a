package coscheduling

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gangplan"
)

const (
	// maxPodsAtOnce is up to how many pods on the nodes all candidates are weighed against each other at once. budgetMultiple is how many times
	// the steps of one attempt that may take, which it rarely does.
	maxPodsAtOnce, budgetMultiple = 2_000, 5
	// minAreaPods is otherwise the minimum number of pods in an area, which begins with the cheapest nodes. The area holds areaMemberFactor
	// times as many members as the gang has, or at most extraAreaMembers additional ones. maxAreaPods is where an area stops growing.
	minAreaPods, areaMemberFactor, extraAreaMembers, maxAreaPods = 1_000, 4, 64, 5_000
	// stepsPerPod is more than a search for victims in an area needs, so that it ends, however large the gang is. readSteps of them find out
	// which pods may leave, and a look at podsPerStep pods that were weighed before is one step.
	stepsPerPod, readSteps, podsPerStep = 60, 24, 4
	// dryRunSteps is how many search steps one dry-run step costs.
	dryRunSteps = 6
	// maxComparedAreas is how many areas with possible victims are compared.
	maxComparedAreas = 4
)

// victimSearch is the state of a search for victims in a large pool, which continues where the last attempt ended.
type victimSearch struct {
	// searchedAreas are the areas searched in vain, by key, and areaSizes is for how many members room was searched in an area.
	searchedAreas sets.Set[string]
	areaSizes     map[string]int
	// unhelpful are nodes where no eviction can make room, and barred the nodes that members cannot use, by role.
	unhelpful unhelpfulNodes
	barred    []sets.Set[string]
	costs     nodeCosts
	// rests says that the last attempt did nothing but weigh pods.
	rests bool
	// proposal is the result of the last attempt, nil for none. isHurried says that a proposal was outdated by the next attempt: the next result
	// is dry-run at once.
	proposal  *proposal
	isHurried bool
	// dryRuns counts the dry runs for the last area, and why is the last reason for rejecting a plan.
	dryRuns dryRunTally
	why     string
	// of is a fingerprint of the members, and began is when the first such search began.
	of    uint64
	began time.Time
	// cut says that the number of rejected plans reached its limit, so that the next search goes on without the barred nodes.
	cut bool
}

// newVictimSearch starts a search without the nodes that members cannot use, nil for none.
func newVictimSearch(of uint64, began time.Time, barred []sets.Set[string]) *victimSearch {
	return &victimSearch{
		of: of, began: began, barred: barred, searchedAreas: sets.New[string](), areaSizes: map[string]int{},
		unhelpful: unhelpfulNodes{names: sets.New[string]()}, dryRuns: dryRunTally{price: dryRunSteps},
	}
}

// addBarred adds nodes that members cannot use, by role, and returns all of them.
func (h *victimSearch) addBarred(more []sets.Set[string]) []sets.Set[string] {
	if h.barred == nil {
		h.barred = make([]sets.Set[string], len(more))
	}
	for role := range more {
		h.barred[role] = more[role].Union(h.barred[role])
	}
	return h.barred
}

// searchResult is a set of victims in an area, and the placement that they make possible.
type searchResult struct {
	*preemptionAttempt
	field *searchArea
	units []int
	plan  *gangplan.Plan
	cost  nodeCost
}

// searchLargePool searches a large pool for victims, area by area, in order of estimated cost, and within an area on the cheapest nodes. It ends
// when the steps are used up, and continues there in the next attempt. done says that the search is complete.
func (q *preemptionAttempt) searchLargePool(ctx context.Context, h *victimSearch) (move *preemptionCandidate, why string, done bool) {
	if !q.tables.Weights.RefreshLosses(q.Nodes, &q.left) {
		return nil, "", false
	}
	if h.rests = q.left < q.budget-q.budget/4 && !h.rests; h.rests {
		return nil, "", false // the first area is searched whatever is left, which would be too much for one attempt
	}
	if of := h.proposal; of != nil {
		h.proposal = nil
		best := q.reviewProposal(of)
		if h.isHurried = best == nil; h.isHurried {
			return nil, h.why, false
		}
		move = q.decideArea(ctx, h, best)
		return move, h.why, move != nil
	}
	q.left -= q.countPods() / podsPerStep
	fields := q.searchAreas(h)
	for begins := true; len(fields) > 0; begins = false {
		best, rest, cut := q.compareAreas(h, fields, begins)
		if best == nil {
			return nil, h.why, !cut
		}
		if best.needsMoreSteps() && !h.isHurried {
			h.proposal = best.newProposal()
			return nil, h.why, false
		}
		h.isHurried = false
		if move = q.decideArea(ctx, h, best); move != nil {
			return move, "", true
		}
		if q.left < 0 || cut {
			return nil, h.why, false
		}
		fields = rest
	}
	return nil, h.why, true
}

// decideArea dry-runs the result for an area, and other plans for it as long as steps last.
func (q *preemptionAttempt) decideArea(ctx context.Context, h *victimSearch, best *searchResult) *preemptionCandidate {
	move, refused := best.findPassingPlan(ctx, &h.dryRuns, best.units, best.plan)
	q.left, h.why = best.left, cmp.Or(refused, h.why)
	if h.dryRuns.over {
		h.cut = h.cut || h.dryRuns.cut
		h.searchedAreas.Insert(best.field.key)
		h.dryRuns = dryRunTally{price: dryRunSteps}
	}
	return move
}

// compareAreas searches areas until the cheapest result is known, nil for none. rest are the areas to search after that one. cut says that the steps
// were used up.
func (q *preemptionAttempt) compareAreas(h *victimSearch, fields []searchArea, begins bool) (best *searchResult, rest []searchArea, cut bool) {
	var all []*searchResult
	start := q.left
	for i := range fields {
		f := &fields[i]
		if best != nil && (len(all) == maxComparedAreas || f.cost.compareCost(best.cost) >= 0 || q.left < start/2) {
			rest = append(rest, fields[i:]...)
			break
		}
		one, over := q.searchInArea(h, f, begins && i == 0)
		if over {
			return best, nil, true
		}
		if one == nil {
			h.searchedAreas.Insert(f.key)
			continue
		}
		if all = append(all, one); best == nil || one.cost.compareCost(best.cost) < 0 {
			best = one
		}
	}
	if best != nil {
		best.left = q.left
	}
	return best, append(rest, otherAreas(all, best)...), false
}

// searchInArea searches an area for victims: on the cheapest nodes first, and then on more of them. over says that the steps were used up, which
// cannot happen for the first nodes of an attempt.
func (q *preemptionAttempt) searchInArea(h *victimSearch, f *searchArea, begins bool) (one *searchResult, over bool) {
	for {
		nodes := slices.DeleteFunc(slices.Clone(f.nodes), func(node int) bool { return q.costs[node].isUnhelpful })
		reach := cmp.Or(h.areaSizes[f.key], min(areaMemberFactor*q.countMembers(), q.countMembers()+extraAreaMembers))
		area, pods := q.cheapestArea(nodes, reach)
		if len(area) == 0 {
			return nil, false
		}
		if q.left < readSteps*pods && !begins {
			return nil, true
		}
		part := q.restrictToNodes(area)
		if part.left = q.left - readSteps*pods; begins { // it would be cut short there each time
			part.left = max(part.left, stepsPerPod*pods*len(q.kinds))
		}
		units, plan := part.searchVictims()
		q.mergeFindings(&part.occupants)
		if q.left = min(q.left-readSteps*pods, part.left); part.left < 0 {
			if begins {
				h.searchedAreas.Insert(f.key)
			}
			return nil, true
		}
		begins = false
		if plan != nil {
			return &searchResult{preemptionAttempt: part, field: f, units: units, plan: plan, cost: part.totalCost(units)}, false
		}
		barren := part.markUnhelpfulNodes(h)
		for _, node := range area {
			q.costs[node].isUnhelpful = h.unhelpful.at[q.Numbers[node]]
		}
		switch {
		case len(area) == len(nodes), barren == 0 && pods > maxAreaPods:
			return nil, false
		case barren == 0:
			h.areaSizes[f.key] = areaMemberFactor * reach
		}
	}
}

// mergeFindings merges the protected candidates of a part of the search.
func (q *preemptionAttempt) mergeFindings(of *occupants) {
	if !of.protectedUntil.IsZero() && (q.occupants.protectedUntil.IsZero() || of.protectedUntil.Before(q.occupants.protectedUntil)) {
		q.occupants.protectedUntil = of.protectedUntil
	}
	q.occupants.keptByBudget = q.occupants.keptByBudget || of.keptByBudget
}

// markUnhelpfulNodes records the nodes of an area where no eviction makes room for any member, and returns how many are new. For a single pod
// these are all nodes of the area.
func (q *preemptionAttempt) markUnhelpfulNodes(h *victimSearch) (count int) {
	for node := range q.Infos {
		takes := slices.ContainsFunc(q.FreeSlots, func(room []int) bool { return room[node] > 0 })
		if len(q.occupants.on[node]) == 0 && !takes || q.countMembers() == 1 {
			h.unhelpful.addNode(q.Numbers[node]) // it was none before
			count++
		}
	}
	return count
}

// restrictToNodes returns the attempt restricted to some nodes, and the nodes of members that have places.
func (q *preemptionAttempt) restrictToNodes(nodes []int) *preemptionAttempt {
	some := *q
	some.NodeDomain = q.SubsetOfNodes(slices.Compact(slices.Sorted(slices.Values(slices.Concat(nodes, q.standing)))))
	some.SetSegments(q.pending)
	some.standing = nil
	for _, node := range q.standing {
		if number, ok := some.NodeNumber(q.Infos[node].Node().Name); ok {
			some.standing = append(some.standing, number)
		}
	}
	some.collector = q.censusOf(some.NodeDomain, q.own, q.collector.below, q.collector.only)
	some.occupants = some.collector.collectVictims()
	return &some
}

// countPods returns how many pods are on the nodes.
func (q *preemptionAttempt) countPods() (pods int) {
	for _, info := range q.Infos {
		pods += len(info.GetPods())
	}
	return pods
}

// reservationMessage returns the nodes of the only allowed victims, and the nodes that the members go to afterwards.
func (q *preemptionAttempt) notifiedNodes() (nodes []int) {
	to := sets.New[string]()
	for role := range q.kinds {
		for _, pod := range q.kinds[role].Pods {
			to.Insert(pod.Status.NominatedNodeName, q.preemptions.MemberNode(preemptorKey(q.own), pod.UID))
		}
	}
	for node, info := range q.Infos {
		if to.Has(info.Node().Name) || slices.ContainsFunc(info.GetPods(), func(on fwk.PodInfo) bool { return q.collector.only.Has(on.GetPod().UID) }) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (q *preemptionAttempt) allMembers() (pods []*corev1.Pod) {
	for i := range q.kinds {
		pods = append(pods, q.kinds[i].Pods...)
	}
	return pods
}

func (q *preemptionAttempt) countMembers() (members int) {
	for i := range q.kinds {
		members += q.kinds[i].Count
	}
	return members
}

func (q *preemptionAttempt) totalCost(units []int) (cost nodeCost) {
	cost.priority = priorityNoVictims
	for _, unit := range units {
		cost.priority, cost.loss = max(cost.priority, q.occupants.units[unit].priority), cost.loss+q.occupants.units[unit].loss
	}
	return cost
}

// victimSearchFor returns the state of the search for some members of a gang. Obstacles of members change over time, so it is kept no longer than
// phase.MaxBackoff.
func (r *gangs) victimSearchFor(g gang, of uint64, now time.Time) *victimSearch {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.search == nil || s.search.of != of || now.Sub(s.search.began) > phase.MaxBackoff {
		s.search = newVictimSearch(of, now, nil)
	}
	return s.search
}

// endVictimSearch makes the next search of a gang start over. If the limit of rejected plans was reached, it uses other nodes: the same plans
// would be rejected again.
func (r *gangs) endVictimSearch(g gang) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok || s.search == nil {
		return
	}
	if s.search.cut {
		s.search = newVictimSearch(s.search.of, s.search.began, s.search.barred)
	} else {
		s.search = nil
	}
}
