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
	// fewPods is on how many pods those that leave are weighed against each other all at once, and fewEfforts how many attempts' steps that may take,
	// which it seldom does.
	fewPods, fewEfforts = 2_000, 5
	// somePods is on how many they are otherwise at least, on the nodes that cost the least, which hold times as many members as there are, or
	// more of them. mostPods is where it ends that more and more nodes are looked at together.
	somePods, times, more, mostPods = 1_000, 4, 64, 5_000
	// stepsPerPod is more than it takes to look for who leaves in an area, which therefore ends, however large the gang is. Of these readSteps
	// are to find out who may leave, weighSteps to weigh it, and a look at what was weighed before is podsPerStep for one.
	stepsPerPod, readSteps, weighSteps, podsPerStep = 60, 24, 6, 4
	// rehearsedSteps is how many one of a rehearsal takes.
	rehearsedSteps = 6
	// fewFields is how many fields in which somebody can leave are compared.
	fewFields = 4
)

// hunt is what is kept of a search for who leaves in a large pool, which goes on where the last attempt ended.
type hunt struct {
	// looked are the fields that were searched in vain, by key, and reach for how many members room was looked for in one.
	looked sets.Set[string]
	reach  map[string]int
	// barren are the nodes where nobody can make room, and barred those that members cannot go to, by role.
	barren barrens
	barred []sets.Set[string]
	tolls  tolls
	// rests says that the last attempt did no more than to weigh pods.
	rests bool
	// proposal is what the last attempt found, nil for nothing, and hurries says that one did not hold any more by the next: what is found then is
	// rehearsed at once.
	proposal *proposal
	hurries  bool
	// rehearsals are those for the field that was looked in last, and why is what a plan was refused for last.
	rehearsals rehearsals
	why        string
	// of is a fingerprint of the members that it is for, and began when the first search of this kind did.
	of    uint64
	began time.Time
	// cut says that plans were refused until no more were tried, so that the next search goes on with the nodes that are not barred.
	cut bool
}

// newHunt knows the nodes that members cannot go to, nil for none.
func newHunt(of uint64, began time.Time, barred []sets.Set[string]) *hunt {
	return &hunt{
		of: of, began: began, barred: barred, looked: sets.New[string](), reach: map[string]int{},
		barren: barrens{names: sets.New[string]()}, rehearsals: rehearsals{price: rehearsedSteps},
	}
}

// bars are the nodes that members cannot go to, by role: those that are known already, with some more.
func (h *hunt) bars(more []sets.Set[string]) []sets.Set[string] {
	if h.barred == nil {
		h.barred = make([]sets.Set[string], len(more))
	}
	for role := range more {
		h.barred[role] = more[role].Union(h.barred[role])
	}
	return h.barred
}

// found is who leaves in a field, and where.
type found struct {
	*plea
	field *field
	units []int
	plan  *gangplan.Plan
	cost  nodeToll
}

// hunts looks for who leaves in a large pool: field by field, those first where it seems to cost the least, and of each the nodes that do. It ends
// when steps do, and goes on there the next time. done says that all was looked at.
func (q *plea) hunts(ctx context.Context, h *hunt) (move *clearance, why string, done bool) {
	if !q.tables.weights.weigh(q.bearing.nodes, &q.left) {
		return nil, "", false
	}
	if h.rests = q.left < q.budget-q.budget/4 && !h.rests; h.rests {
		return nil, "", false // the first nodes are looked at whatever is left, which would be too much for one attempt
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

// decide rehearses what was found in a field, and other plans for it as long as steps last.
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

// compare looks in fields until it is known where it costs the least, of some, nil for nowhere. rest are those to look in after that one. cut says
// that steps did not last.
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

// lookIn looks for who leaves in a field: on the nodes that cost the least, and then on more of them. over says that steps did not last, which they do
// for the first nodes that an attempt begins with.
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

// hears notes who of a part may not leave yet.
func (q *plea) hears(of *crowd) {
	if !of.guarded.IsZero() && (q.crowd.guarded.IsZero() || of.guarded.Before(q.crowd.guarded)) {
		q.crowd.guarded = of.guarded
	}
	q.crowd.budgeted = q.crowd.budgeted || of.budgeted
}

// barren notes the nodes of an area where nobody can make room for anybody, and returns how many are new: for a pod alone those are all.
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

// part is a plea on some nodes alone, and on those where members stand.
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

// pods is how many pods are on the nodes.
func (q *plea) pods() (pods int) {
	for _, info := range q.infos {
		pods += len(info.GetPods())
	}
	return pods
}

// toldOf are the nodes of those that alone may leave, and those that the members are to come to then.
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

// huntOf is what is kept of the search for who leaves for some members of a gang. What keeps members from nodes changes, so that it is not kept for
// longer than mostVain.
func (p *places) huntOf(g gang, of uint64, now time.Time) *hunt {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.hunt == nil || r.hunt.of != of || now.Sub(r.hunt.began) > mostVain {
		r.hunt = newHunt(of, now, nil)
	}
	return r.hunt
}

// endHunt has the next search for a gang begin anew. If plans were refused until no more were tried, the next ones are for other nodes: the same
// would be refused each time.
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
