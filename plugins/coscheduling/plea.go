package coscheduling

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// searchBudget is how many pods one attempt to find victims may visit, counting a pod each time its node is tried: some 50 ms, in which all
// other pods wait. In a large pool the next attempt continues where this one ended.
const searchBudget = 100_000

// clearance is a set of victims for a gang, and where its members go afterwards.
type clearance struct {
	victims []*corev1.Pod
	// borrow are the victims that have borrowed GPUs from the preemptor.
	borrow sets.Set[types.UID]
	to     map[types.UID]string
	// awaits says that pods are already terminating where members go.
	awaits bool
	// told are the notices for victims that stay for now, nil if they are evicted at once.
	told map[types.UID]notice.Notice
}

// plea is an attempt to find victims for a gang.
type plea struct {
	*Plugin
	*site
	own      gang
	kinds    []kind
	standing []int
	crowd    crowd
	census   *census
	of       party
	// tolls are the approximate costs of making room on each node of a large pool.
	tolls []nodeToll
	// left is how many more pods may be visited, of a budget.
	left, budget int
	// barred are the nodes that members cannot use, whichever pods leave, by role.
	barred []sets.Set[string]
	// leaves are the pods that have left the node tried last.
	leaves []fwk.PodInfo
}

// clearing returns the victims that make room for as many members as needed, nil if none do, and why. If only is not nil, only those pods may
// leave.
func (p *Plugin) clearing(ctx context.Context, g gang, group *podGroup, m *members, b bearing, only sets.Set[types.UID]) (*clearance, setback) {
	waiting := needed(group, m)
	of := p.partyOf(group.layout, waiting, m)
	if of.varied {
		return nil, setback{}
	}
	seats, err := b.seatsOf(of.kinds)
	if err != nil {
		return nil, setback{}
	}
	below := p.weakest(waiting, lowest(waiting))
	if !p.tables.anyBelow(b.nodes, below) && !b.request.Entitled() {
		return nil, setback{}
	}
	s := siteOf(group.layout, seats, b)
	s.seatIn(of)
	q := &plea{Plugin: p, site: s, own: g, kinds: of.kinds, of: of, standing: s.positions(p.places.nodesOf(m.placed)), census: p.censusOf(s, g, below, only),
		left: p.effort, barred: slices.Repeat([]sets.Set[string]{p.places.planOf(g).rejected()}, len(of.kinds))}
	if q.replays() {
		q.left = math.MaxInt / (2 * fewEfforts)
	}
	q.budget = q.left
	move, why, done := q.look(ctx)
	if move != nil {
		return move, setback{}
	}
	return nil, setback{looked: q.budget - q.left + len(s.infos), why: why, unfinished: !done, guarded: q.crowd.guarded, borrowed: b.request.Entitled(), budgeted: q.crowd.budgeted}
}

// replays reports whether a search takes no time from other pods.
func (p *Plugin) replays() bool { return p.replay || p.now().IsZero() }

// look returns the victims that make room for a gang, nil if none do, and why. done says that the search is complete.
func (q *plea) look(ctx context.Context) (move *clearance, why string, done bool) {
	var kept *hunt
	if q.census.only == nil {
		kept = q.places.huntOf(q.own, fingerprint(q.everybody()), q.Plugin.now())
		q.barred = kept.bars(q.barred)
	}
	if kept != nil && q.pods() > fewPods {
		if move, why, done = q.hunts(ctx, kept); done {
			kept.cut = kept.cut && move == nil
			q.places.endHunt(q.own)
		}
		return move, why, done
	}
	if q.census.only != nil && q.pods() > fewPods {
		few := q.part(q.toldOf())
		few.left = q.left
		if move, _ = few.passing(ctx, &rehearsals{}, nil, nil); move != nil {
			return move, "", true
		}
	}
	q.crowd, q.budget = q.census.gather(), fewEfforts*q.budget
	q.left = q.budget
	var r rehearsals
	move, why = q.passing(ctx, &r, nil, nil)
	if kept != nil {
		kept.cut = r.cut && move == nil
		q.places.endHunt(q.own)
	}
	if move == nil && q.left < 0 {
		q.places.pause(q.own, q.Plugin.now().Add(exhausted))
	}
	return move, why, true
}

// rehearsals counts the dry-run plans for one area, and how many of them had a member too many in a domain.
type rehearsals struct {
	plans, spreads int
	// price is how many search steps one dry-run step costs, 0 if they do not count.
	price int
	// over says that no more plans are tried, and cut that there may be further plans for nodes that were not rejected.
	over, cut bool
}

// count records the rejection of a plan.
func (r *rehearsals) count(refused *veto) {
	if refused.spread {
		r.spreads++
	} else {
		r.plans++
	}
	r.cut = refused.nodes != nil && (r.plans == mostRehearsals || r.spreads == mostSpreads)
	r.over = refused.nodes == nil || r.cut
}

// passing returns a plan that passes its dry run, nil if none does, and the last rejection. It begins with the given plan, if there is one.
func (q *plea) passing(ctx context.Context, r *rehearsals, units []int, plan *gangplan.Plan) (move *clearance, why string) {
	for ; !r.over; plan = nil {
		if plan == nil {
			units, plan = q.search()
		}
		if plan == nil {
			r.over = q.left >= 0
			break
		}
		refused, steps := q.try(ctx, units, plan)
		if refused == nil {
			return q.clearance(units, plan), ""
		}
		q.left -= r.price * steps
		why = reason.KeptOut(q.own.isAlone(), refused.why)
		if r.count(refused); refused.nodes != nil {
			q.barred[refused.role] = refused.nodes.Union(q.barred[refused.role])
		}
	}
	return nil, why
}

// search returns the victims, and the plan for when they have left. It returns none if the search was cut short, because a victim of
// such an answer might not have been necessary.
func (q *plea) search() (units []int, plan *gangplan.Plan) {
	units, plan = gangplan.Victims(gangplan.Eviction{
		Problem: q.problem(q.kinds, q.standing, nil),
		Units:   q.crowd.asUnits(),
		Budgets: q.crowd.budgets,
		RoomWithout: func(node, role int, beside []int, gone func(int) bool) int {
			if q.left -= 1 + len(q.infos[node].GetPods()); q.left < 0 || q.barred[role].Has(q.infos[node].Node().Name) {
				return 0
			}
			if q.leaves = q.crowd.appendGone(q.leaves[:0], node, gone); len(q.leaves) > 0 {
				return q.room(node, role, beside, change{gone: q.leaves})
			}
			return q.free(node, role, beside)
		},
	})
	if q.left < 0 {
		return nil, nil
	}
	return units, plan
}

// try dry-runs a plan that needs victims.
func (q *plea) try(ctx context.Context, units []int, plan *gangplan.Plan) (refused *veto, steps int) {
	if len(units) == 0 {
		return nil, 0
	}
	leaves, leaving, others := q.crowd.marked(units), map[int][]fwk.PodInfo{}, map[int][]fwk.PodInfo{}
	for node := range q.crowd.on {
		if len(q.crowd.on[node]) > 0 {
			leaving[node] = q.crowd.gone(node, func(unit int) bool { return leaves[unit] })
			others[node] = q.crowd.gone(node, func(int) bool { return true })
		}
	}
	return q.rehearse(ctx, &cast{site: q.site, kinds: q.kinds, plan: plan, leaving: leaving, others: others})
}

func (q *plea) clearance(units []int, plan *gangplan.Plan) *clearance {
	move := &clearance{to: map[types.UID]string{}, borrow: sets.New[types.UID]()}
	for _, unit := range units {
		of := &q.crowd.units[unit]
		move.victims = append(move.victims, of.pods...)
		for _, pod := range of.pods {
			if of.borrows {
				move.borrow.Insert(pod.UID)
			}
		}
	}
	for role := range q.kinds {
		for i, node := range plan.Places[role] {
			move.to[q.kinds[role].all[i].UID] = q.infos[node].Node().Name
			move.awaits = move.awaits || slices.ContainsFunc(q.crowd.on[node], func(o occupant) bool { return o.unit < 0 })
		}
	}
	return move
}
