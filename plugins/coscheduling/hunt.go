package coscheduling

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gangplan"
)

const (
	// fewPods is up to how many pods on the nodes all candidates are weighed against each other at once. budgetMultiple is how many times
	// the steps of one attempt that may take, which it rarely does.
	fewPods, fewEfforts = 2_000, 5
	// somePods is otherwise the minimum number of pods in an area, which begins with the cheapest nodes. The area holds areaMemberFactor
	// times as many members as the gang has, or at most extraAreaMembers additional ones. maxAreaPods is where an area stops growing.
	somePods, times, more, mostPods = 1_000, 4, 64, 5_000
	// stepsPerPod is more than a search for victims in an area needs, so that it ends, however large the gang is. readSteps of them find out
	// which pods may leave, weighSteps weigh a pod, and a look at podsPerStep pods that were weighed before is one step.
	stepsPerPod, readSteps, weighSteps, podsPerStep = 60, 24, 6, 4
	// rehearsedSteps is how many search steps one dry-run step costs.
	rehearsedSteps = 6
	// fewFields is how many areas with possible victims are compared.
	fewFields = 4
)

// hunt is the state of a search for victims in a large pool, which continues where the last attempt ended.
type hunt struct {
	// looked are the areas searched in vain, by key, and areaSizes is for how many members room was searched in an area.
	looked sets.Set[string]
	reach  map[string]int
	// barren are nodes where no eviction can make room, and barred the nodes that members cannot use, by role.
	barren barrens
	barred []sets.Set[string]
	tolls  tolls
	// rests says that the last attempt did nothing but weigh pods.
	rests bool
	// proposal is the result of the last attempt, nil for none. isHurried says that a proposal was outdated by the next attempt: the next result
	// is dry-run at once.
	proposal *proposal
	hurries  bool
	// rehearsals counts the dry runs for the last area, and why is the last reason for rejecting a plan.
	rehearsals rehearsals
	why        string
	// of is a fingerprint of the members, and began is when the first such search began.
	of    uint64
	began time.Time
	// cut says that the number of rejected plans reached its limit, so that the next search goes on without the barred nodes.
	cut bool
}

// newHunt starts a search without the nodes that members cannot use, nil for none.
func newHunt(of uint64, began time.Time, barred []sets.Set[string]) *hunt {
	return &hunt{
		of: of, began: began, barred: barred, looked: sets.New[string](), reach: map[string]int{},
		barren: barrens{names: sets.New[string]()}, rehearsals: rehearsals{price: rehearsedSteps},
	}
}

// bars adds nodes that members cannot use, by role, and returns all of them.
func (h *hunt) bars(more []sets.Set[string]) []sets.Set[string] {
	if h.barred == nil {
		h.barred = make([]sets.Set[string], len(more))
	}
	for role := range more {
		h.barred[role] = more[role].Union(h.barred[role])
	}
	return h.barred
}

// found is a set of victims in an area, and the placement that they make possible.
type found struct {
	*plea
	field *field
	units []int
	plan  *gangplan.Plan
	cost  nodeToll
}

// hunts searches a large pool for victims, area by area, in order of estimated cost, and within an area on the cheapest nodes. It ends
// when the steps are used up, and continues there in the next attempt. done says that the search is complete.
func (q *plea) hunts(ctx context.Context, h *hunt) (move *clearance, why string, done bool) {
	if !q.tables.weights.weigh(q.bearing.nodes, &q.left) {
		return nil, "", false
	}
	if h.rests = q.left < q.budget-q.budget/4 && !h.rests; h.rests {
		return nil, "", false // the first area is searched whatever is left, which would be too much for one attempt
	}
	if of := h.proposal; of != nil {
		h.proposal = nil
		best := q.review(of)
		if h.hurries = best == nil; h.hurries {
			return nil, h.why, false
		}
		move = q.decide(ctx, h, best)
		return move, h.why, move != nil
	}
	q.left -= q.pods() / podsPerStep
	fields := q.fields(h)
	for begins := true; len(fields) > 0; begins = false {
		best, rest, cut := q.compare(h, fields, begins)
		if best == nil {
			return nil, h.why, !cut
		}
		if best.isTooMuch() && !h.hurries {
			h.proposal = best.propose()
			return nil, h.why, false
		}
		h.hurries = false
		if move = q.decide(ctx, h, best); move != nil {
			return move, "", true
		}
		if q.left < 0 || cut {
			return nil, h.why, false
		}
		fields = rest
	}
	return nil, h.why, true
}

// decide dry-runs the result for an area, and other plans for it as long as steps last.
func (q *plea) decide(ctx context.Context, h *hunt, best *found) *clearance {
	move, refused := best.passing(ctx, &h.rehearsals, best.units, best.plan)
	q.left, h.why = best.left, cmp.Or(refused, h.why)
	if h.rehearsals.over {
		h.cut = h.cut || h.rehearsals.cut
		h.looked.Insert(best.field.key)
		h.rehearsals = rehearsals{price: rehearsedSteps}
	}
	return move
}

// compare searches areas until the cheapest result is known, nil for none. rest are the areas to search after that one. cut says that the steps
// were used up.
func (q *plea) compare(h *hunt, fields []field, begins bool) (best *found, rest []field, cut bool) {
	var all []*found
	start := q.left
	for i := range fields {
		f := &fields[i]
		if best != nil && (len(all) == fewFields || f.toll.compare(best.cost) >= 0 || q.left < start/2) {
			rest = append(rest, fields[i:]...)
			break
		}
		one, over := q.lookIn(h, f, begins && i == 0)
		if over {
			return best, nil, true
		}
		if one == nil {
			h.looked.Insert(f.key)
			continue
		}
		if all = append(all, one); best == nil || one.cost.compare(best.cost) < 0 {
			best = one
		}
	}
	if best != nil {
		best.left = q.left
	}
	return best, append(rest, fieldsBut(all, best)...), false
}

// lookIn searches an area for victims: on the cheapest nodes first, and then on more of them. over says that the steps were used up, which
// cannot happen for the first nodes of an attempt.
func (q *plea) lookIn(h *hunt, f *field, begins bool) (one *found, over bool) {
	for {
		nodes := slices.DeleteFunc(slices.Clone(f.nodes), func(node int) bool { return q.tolls[node].barren })
		reach := cmp.Or(h.reach[f.key], min(times*q.members(), q.members()+more))
		area, pods := q.first(nodes, reach)
		if len(area) == 0 {
			return nil, false
		}
		if q.left < readSteps*pods && !begins {
			return nil, true
		}
		part := q.part(area)
		if part.left = q.left - readSteps*pods; begins { // it would be cut short there each time
			part.left = max(part.left, stepsPerPod*pods*len(q.kinds))
		}
		units, plan := part.search()
		q.hears(&part.crowd)
		if q.left = min(q.left-readSteps*pods, part.left); part.left < 0 {
			if begins {
				h.looked.Insert(f.key)
			}
			return nil, true
		}
		begins = false
		if plan != nil {
			return &found{plea: part, field: f, units: units, plan: plan, cost: part.costOf(units)}, false
		}
		barren := part.barren(h)
		for _, node := range area {
			q.tolls[node].barren = h.barren.at[q.numbers[node]]
		}
		switch {
		case len(area) == len(nodes), barren == 0 && pods > mostPods:
			return nil, false
		case barren == 0:
			h.reach[f.key] = times * reach
		}
	}
}

// hears merges the protected candidates of a part of the search.
func (q *plea) hears(of *crowd) {
	if !of.guarded.IsZero() && (q.crowd.guarded.IsZero() || of.guarded.Before(q.crowd.guarded)) {
		q.crowd.guarded = of.guarded
	}
	q.crowd.budgeted = q.crowd.budgeted || of.budgeted
}

// barren records the nodes of an area where no eviction makes room for any member, and returns how many are new. For a single pod
// these are all nodes of the area.
func (q *plea) barren(h *hunt) (count int) {
	for node := range q.infos {
		takes := slices.ContainsFunc(q.site.now, func(room []int) bool { return room[node] > 0 })
		if len(q.crowd.on[node]) == 0 && !takes || q.members() == 1 {
			h.barren.add(q.numbers[node]) // it was none before
			count++
		}
	}
	return count
}

// part returns the attempt restricted to some nodes, and the nodes of members that have places.
func (q *plea) part(nodes []int) *plea {
	some := *q
	some.site = q.site.part(slices.Compact(slices.Sorted(slices.Values(slices.Concat(nodes, q.standing)))))
	some.seatIn(q.of)
	some.standing = nil
	for _, node := range q.standing {
		if number, ok := some.number(q.infos[node].Node().Name); ok {
			some.standing = append(some.standing, number)
		}
	}
	some.census = q.censusOf(some.site, q.own, q.census.below, q.census.only)
	some.crowd = some.census.gather()
	return &some
}

// pods returns how many pods are on the nodes.
func (q *plea) pods() (pods int) {
	for _, info := range q.infos {
		pods += len(info.GetPods())
	}
	return pods
}

// toldOf returns the nodes of the only allowed victims, and the nodes that the members go to afterwards.
func (q *plea) toldOf() (nodes []int) {
	to := sets.New[string]()
	for role := range q.kinds {
		for _, pod := range q.kinds[role].all {
			to.Insert(pod.Status.NominatedNodeName, q.notices.placeOf(keyOf(q.own), pod.UID))
		}
	}
	for node, info := range q.infos {
		if to.Has(info.Node().Name) || slices.ContainsFunc(info.GetPods(), func(on fwk.PodInfo) bool { return q.census.only.Has(on.GetPod().UID) }) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (q *plea) everybody() (pods []*corev1.Pod) {
	for i := range q.kinds {
		pods = append(pods, q.kinds[i].all...)
	}
	return pods
}

func (q *plea) members() (members int) {
	for i := range q.kinds {
		members += q.kinds[i].count
	}
	return members
}

func (q *plea) costOf(units []int) (cost nodeToll) {
	cost.priority = nobodyLeaves
	for _, unit := range units {
		cost.priority, cost.loss = max(cost.priority, q.crowd.units[unit].priority), cost.loss+q.crowd.units[unit].loss
	}
	return cost
}

// huntOf returns the state of the search for some members of a gang. Obstacles of members change over time, so it is kept no longer than
// maxBackoff.
func (p *places) huntOf(g gang, of uint64, now time.Time) *hunt {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.hunt == nil || r.hunt.of != of || now.Sub(r.hunt.began) > mostVain {
		r.hunt = newHunt(of, now, nil)
	}
	return r.hunt
}

// endHunt makes the next search of a gang start over. If the limit of rejected plans was reached, it uses other nodes: the same plans
// would be rejected again.
func (p *places) endHunt(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || r.hunt == nil {
		return
	}
	if r.hunt.cut {
		r.hunt = newHunt(r.hunt.of, r.hunt.began, r.hunt.barred)
	} else {
		r.hunt = nil
	}
}
