package coscheduling

import (
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
)

const (
	// settling is how long a gang evicts nobody else after it has, until it is seen that those leave.
	settling = 2 * time.Second
	// searchBudget is how many pods may be looked at in one attempt to find who leaves, a pod each time that its node is tried: some 50 ms, in
	// which all others wait. In a large pool the next attempt goes on where this one ended. exhausted is how long there is no other search
	// for a gang when others would have left in vain, or on the same grounds.
	searchBudget = 100_000
	exhausted    = time.Minute
	// mostVain is the longest that a gang evicts nobody since it did and could not start: exhausted, and twice as long each time.
	mostVain = time.Hour
)

// makeRoom has pods of lower priority leave for a gang that has no room: exactly as many as it takes, and nobody unless all
// members have their places then. It returns where the pod goes then, or why nobody leaves, "" where that needs no words.
//
// It is decided for the whole gang at once. When it is done one member at a time, as kube-scheduler does for pods, a gang that
// lacks one node evicts once a member, and one that cannot start for another reason does so over and over.
func (p *Plugin) makeRoom(ctx context.Context, g gang, group *podGroup, m *members, pod *corev1.Pod, refused fwk.NodeToStatusReader) (node, why string) {
	if m.missing(group.minMember) != "" || len(m.placed) > m.bound || len(group.minResources) > 0 {
		p.nominate(m.waiting, nil)
		return "", ""
	}
	// Without a node kube-scheduler's own preemption, which comes first, would have the last word: that the pod goes nowhere.
	if p.places.settles(g, p.now()) {
		return pod.Status.NominatedNodeName, ""
	}
	node, why, due := p.waitsFor(g, pod)
	if why != "" {
		return node, why
	}
	if due == nil {
		if holdsBack, why := p.holdsBack(g, group, m); holdsBack {
			return "", why
		}
	}
	return p.plead(ctx, g, group, m, pod, due, refused)
}

// holdsBack reports whether nobody is evicted for a gang for now, whoever could be, and why, "" where that needs no words.
func (p *Plugin) holdsBack(g gang, group *podGroup, m *members) (holdsBack bool, why string) {
	now := p.now()
	p.recall(g, m.waiting...)
	if abstains, why := p.places.abstains(g, now); abstains {
		p.nominate(m.waiting, nil) // or it would keep nodes from others that it does not go to
		p.staysAwake(g, group, now)
		return true, why
	}
	request := p.requestOf(group, m)
	if p.places.waitsByChoice(g) || !p.mayEvict(m.waiting) && !request.Entitled() || overQuota(request) != "" {
		return true, ""
	}
	if p.backsOff(g, now) || p.places.isFutile(g, now) {
		p.staysAwake(g, group, now)
		return true, p.places.guardOf(g)
	}
	if turn := p.thrift.mayAt(g, now); turn.After(now) {
		p.wakeAt(g, group, turn, p.GoesAhead)
		return true, p.places.guardOf(g)
	}
	return false, ""
}

// plead has those leave that make room for a gang, of some, nil for all. It returns what makeRoom does.
func (p *Plugin) plead(ctx context.Context, g gang, group *podGroup, m *members, pod *corev1.Pod, due sets.Set[types.UID], refused fwk.NodeToStatusReader) (node, why string) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "", "" // it is in memory
	}
	b := p.bearingOf(nodes)
	b.whole = keptWhole(nodes, refused)
	request := p.requestOf(group, m)
	b.request = request
	b.kept, _ = p.keptFor(g, group, m)
	move, setback := p.clearing(ctx, g, group, m, b, due)
	if move != nil {
		p.thrift.forget(g, p.now())
	} else if !p.replay {
		p.thrift.inVain(g, setback.looked, p.now())
	}
	switch {
	case move == nil && due != nil:
		p.changesItsMind(g, group, m)
		return "", ""
	case move == nil && setback.unfinished:
		p.nominate(m.waiting, nil)
		p.wakeAt(g, group, p.thrift.mayAt(g, p.now()), p.GoesAhead) // it goes on then
		return "", ""
	case move == nil:
		p.nominate(m.waiting, nil)
		return "", p.holdOff(g, group, setback)
	case len(move.victims) == 0:
		p.withdraw(keyOf(g))
		return p.await(move, m, pod), ""
	}
	p.quotas.Promise(m.waiting, move.to)
	return move.to[pod.UID], p.clear(g, move, m.waiting, pod, due != nil)
}

// await returns where a pod goes when nobody else has to leave for its gang, "" for nowhere.
func (p *Plugin) await(move *clearance, m *members, pod *corev1.Pod) string {
	if !move.awaits { // what keeps the gang out is not that somebody is there
		p.nominate(m.waiting, nil)
		return ""
	}
	p.keepNominated(m.waiting, move.to)
	if pod.Status.NominatedNodeName == "" {
		return ""
	}
	return move.to[pod.UID]
}

// mayEvict reports whether members may have others evicted at all.
func (p *Plugin) mayEvict(waiting []*corev1.Pod) bool {
	return !slices.ContainsFunc(waiting, func(pod *corev1.Pod) bool {
		return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
	})
}

// clearance is who leaves for a gang, and where its members go then.
type clearance struct {
	victims []*corev1.Pod
	// borrow are those of them that have the GPUs of those who ask.
	borrow sets.Set[types.UID]
	to     map[types.UID]string
	// awaits says that somebody leaves already where members go.
	awaits bool
	// told is what the victims are told who stay for now, nil where they leave.
	told map[types.UID]notice.Notice
}

// plea is a gang that asks for others to leave.
type plea struct {
	*Plugin
	*site
	own      gang
	kinds    []kind
	standing []int
	crowd    crowd
	census   *census
	of       party
	// tolls are about what it costs to make room on each node of a large pool.
	tolls []nodeToll
	// left is how many pods may still be looked at, of a budget.
	left, budget int
	// barred are the nodes that members cannot go to, whoever leaves, by role.
	barred []sets.Set[string]
}

// clearing returns what makes room for as many members as it takes, nil if nothing does, and why that is. Only some may leave,
// nil for all.
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

// replays reports whether no time passes for other pods while somebody looks.
func (p *Plugin) replays() bool { return p.replay || p.now().IsZero() }

// look returns what makes room for a gang, nil if nothing does, and why that is. done says that all was looked at that may be.
func (q *plea) look(ctx context.Context) (move *clearance, why string, done bool) {
	if q.census.only == nil && q.pods() > fewPods {
		h := q.places.huntOf(q.own, fingerprint(q.everybody()))
		q.barred = h.bars(q.barred)
		if move, why, done = q.hunts(ctx, h); done {
			q.places.endHunt(q.own)
		}
		return move, why, done
	}
	if q.census.only != nil && q.pods() > fewPods {
		few := q.part(q.toldOf())
		few.left = q.left
		if move, _ = few.passing(ctx, nil, nil); move != nil {
			return move, "", true
		}
	}
	q.crowd, q.budget = q.census.gather(), fewEfforts*q.budget
	q.left = q.budget
	move, why = q.passing(ctx, nil, nil)
	if move == nil && q.left < 0 {
		q.places.pause(q.own, q.Plugin.now().Add(exhausted))
	}
	return move, why, true
}

// passing returns a plan that passes its rehearsal, nil if none does, and what the last one was refused for. The first is one that was found, if
// there is one.
func (q *plea) passing(ctx context.Context, units []int, plan *gangplan.Plan) (move *clearance, why string) {
	for tried, spread := 0, 0; tried < mostRehearsals && spread < mostSpreads; plan = nil {
		if plan == nil {
			units, plan = q.search()
		}
		if plan == nil {
			break
		}
		refused := q.try(ctx, units, plan)
		if refused == nil {
			return q.clearance(units, plan), ""
		}
		if why = reason.KeptOut(q.own.isAlone(), refused.why); refused.nodes == nil {
			break
		}
		if refused.spread {
			spread++
		} else {
			tried++
		}
		q.barred[refused.role] = refused.nodes.Union(q.barred[refused.role])
	}
	return nil, why
}

// search returns who has to leave, and the plan for when they have; none where who leaves by an answer that was cut short
// might have stayed.
func (q *plea) search() (units []int, plan *gangplan.Plan) {
	units, plan = gangplan.Victims(gangplan.Eviction{
		Problem: q.problem(q.kinds, q.standing, nil),
		Units:   q.crowd.asUnits(),
		Budgets: q.crowd.budgets,
		RoomWithout: func(node, role int, beside []int, gone func(int) bool) int {
			if q.left -= 1 + len(q.infos[node].GetPods()); q.left < 0 || q.barred[role].Has(q.infos[node].Node().Name) {
				return 0
			}
			if leaving := q.crowd.gone(node, gone); len(leaving) > 0 {
				return q.room(node, role, beside, change{gone: leaving})
			}
			return q.free(node, role, beside)
		},
	})
	if q.left < 0 {
		return nil, nil
	}
	return units, plan
}

// try rehearses a plan that somebody is to leave for.
func (q *plea) try(ctx context.Context, units []int, plan *gangplan.Plan) *veto {
	if len(units) == 0 {
		return nil
	}
	leaves, leaving, others := sets.New(units...), map[int][]fwk.PodInfo{}, map[int][]fwk.PodInfo{}
	for node := range q.crowd.on {
		leaving[node] = q.crowd.gone(node, leaves.Has)
		others[node] = q.crowd.gone(node, func(int) bool { return true })
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

// nominatedFirst has the members that places were made free for before those that are more than it takes.
func nominatedFirst(members []*corev1.Pod) []*corev1.Pod {
	rest := func(pod *corev1.Pod) int {
		if pod.Status.NominatedNodeName == "" {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(members), func(a, b *corev1.Pod) int { return rest(a) - rest(b) })
}

// settles reports whether others are about to leave for a gang.
func (p *places) settles(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && (r.underWay || now.Before(r.settles))
}

// abstains reports whether a gang evicts nobody for a while, and why, "" where that needs no words.
func (p *places) abstains(g gang, now time.Time) (abstains bool, why string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || !now.Before(r.abstains) {
		return false, ""
	}
	return true, r.keptOut
}

// waitsByChoice reports whether a gang could start, and holds out for better.
func (p *places) waitsByChoice(g gang) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.refusal.isChoice
}

// clear notes that others leave for a gang, which evicts nobody else until a time.
func (p *places) clear(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.settles, r.cleared, r.keptOut, r.guard = until, true, "", ""
}

// pause notes until when a gang evicts nobody.
func (p *places) pause(g gang, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).abstains = until
}

// inVain notes that a member was refused by another plugin. If others have left for the gang it evicts nobody for a while,
// longer each time: what keeps it out would keep it out again. What was made free it keeps for the time in which that settles:
// its members may only have been tried in an order that another plugin does not take.
func (p *places) inVain(g gang, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	if !ok || !r.cleared {
		return
	}
	r.vain = min(max(exhausted, 2*r.vain), mostVain)
	r.abstains, r.cleared = now.Add(r.vain), false
}

// futile notes that nobody could make room for a gang on the grounds of its last refusal, until a time: budgets, volumes and
// those who would not leave change without a change of a node. Whom another plugin would have kept out is not asked before. guard says
// who may not leave yet.
func (p *places) futile(g gang, until time.Time, why, guard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.futile, r.futileUntil, r.guard, r.dozes = r.refusal.on, until, guard, false
	if r.keptOut = why; why != "" {
		r.abstains = until
	}
}

// isFutile reports whether nobody could make room for a gang on the grounds of its last refusal.
func (p *places) isFutile(g gang, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.futile == r.refusal.on && r.futile != (basis{}) && now.Before(r.futileUntil)
}
