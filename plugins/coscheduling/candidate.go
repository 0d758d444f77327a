package coscheduling

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// searchBudget is how many pods one attempt to find victims may visit, counting a pod each time its node is tried: some 50 ms, in which all
// other pods wait. In a large pool the next attempt continues where this one ended.
const searchBudget = 100_000

// preemptionCandidate is a set of victims for a gang, and where its members go afterwards.
type preemptionCandidate struct {
	victims []*corev1.Pod
	// borrowers are the victims that have borrowed GPUs from the preemptor.
	borrowers sets.Set[types.UID]
	to        map[types.UID]string
	// awaitsTermination says that pods are already terminating where members go.
	awaitsTermination bool
	// notices are the notices for victims that stay for now, nil if they are evicted at once.
	notices map[types.UID]notice.Notice
}

// preemptionAttempt is an attempt to find victims for a gang.
type preemptionAttempt struct {
	*Plugin
	*placement.NodeDomain
	own       gang
	kinds     []placement.PodClass
	standing  []int
	occupants occupants
	collector *victimCollector
	pending   placement.PendingMembers
	// costs are the approximate costs of making room on each node of a large pool.
	costs []nodeCost
	// left is how many more pods may be visited, of a budget.
	left, budget int
	// barred are the nodes that members cannot use, whichever pods leave, by role.
	barred []sets.Set[string]
	// gonePods are the pods that have left the node tried last.
	gonePods []fwk.PodInfo
}

// findPreemption returns the victims that make room for as many members as needed, nil if none do, and why. If only is not nil, only those pods may
// leave.
func (p *Plugin) findPreemption(ctx context.Context, g gang, group *podgroup.Group, m *placement.Members, b placement.ClusterSnapshot, only sets.Set[types.UID]) (*preemptionCandidate, preemptionFailure) {
	waiting := placement.NeededMembers(group.Needs(), m)
	of := placement.NewPendingMembers(group.Layout, waiting, m, p.gangs.nodesOf)
	if of.Varied {
		return nil, preemptionFailure{}
	}
	seats, err := b.SlotsFor(of.Classes)
	if err != nil {
		return nil, preemptionFailure{}
	}
	below := p.victimPriorityLimit(waiting, lowestPriority(waiting))
	if !p.tables.HasPodsBelow(b.Nodes, below) && !b.Request.IsEntitled() {
		return nil, preemptionFailure{}
	}
	s := placement.NewNodeDomain(group.Layout, seats, b)
	s.SetSegments(of)
	q := &preemptionAttempt{Plugin: p, NodeDomain: s, own: g, kinds: of.Classes, pending: of, standing: s.NodeNumbers(p.gangs.nodesOf(m.Placed)), collector: p.censusOf(s, g, below, only),
		left: p.searchLimit, barred: slices.Repeat([]sets.Set[string]{p.gangs.planOf(g).ExcludedNodes()}, len(of.Classes))}
	if q.isReplay() {
		q.left = math.MaxInt / (2 * budgetMultiple)
	}
	q.budget = q.left
	move, why, done := q.findCandidate(ctx)
	if move != nil {
		return move, preemptionFailure{}
	}
	return nil, preemptionFailure{podsSearched: q.budget - q.left + len(s.Infos), why: why, unfinished: !done, protectedUntil: q.occupants.protectedUntil, borrowed: b.Request.IsEntitled(), budgeted: q.occupants.keptByBudget}
}

// isReplay reports whether a search takes no time from other pods.
func (p *Plugin) isReplay() bool { return p.replay || p.now().IsZero() }

// findCandidate returns the victims that make room for a gang, nil if none do, and why. done says that the search is complete.
func (q *preemptionAttempt) findCandidate(ctx context.Context) (move *preemptionCandidate, why string, done bool) {
	var kept *victimSearch
	if q.collector.only == nil {
		kept = q.gangs.victimSearchFor(q.own, placement.PodsFingerprint(q.allMembers()), q.now())
		q.barred = kept.addBarred(q.barred)
	}
	if kept != nil && q.countPods() > maxPodsAtOnce {
		if move, why, done = q.searchLargePool(ctx, kept); done {
			kept.cut = kept.cut && move == nil
			q.gangs.endVictimSearch(q.own)
		}
		return move, why, done
	}
	if q.collector.only != nil && q.countPods() > maxPodsAtOnce {
		few := q.restrictToNodes(q.notifiedNodes())
		few.left = q.left
		if move, _ = few.findPassingPlan(ctx, &dryRunTally{}, nil, nil); move != nil {
			return move, "", true
		}
	}
	q.occupants, q.budget = q.collector.collectVictims(), budgetMultiple*q.budget
	q.left = q.budget
	var r dryRunTally
	move, why = q.findPassingPlan(ctx, &r, nil, nil)
	if kept != nil {
		kept.cut = r.cut && move == nil
		q.gangs.endVictimSearch(q.own)
	}
	if move == nil && q.left < 0 {
		q.gangs.changeState(q.own, func(s *phase.Gang) { s.PausePreemption(q.now().Add(phase.BaseBackoff)) })
	}
	return move, why, true
}

// dryRunTally counts the dry-run plans for one area, and how many of them had a member too many in a domain.
type dryRunTally struct {
	plans, spreads int
	// price is how many search steps one dry-run step costs, 0 if they do not count.
	price int
	// over says that no more plans are tried, and cut that there may be further plans for nodes that were not rejected.
	over, cut bool
}

// recordRejection records the rejection of a plan.
func (r *dryRunTally) recordRejection(refused *preemption.Rejection) {
	if refused.Spread {
		r.spreads++
	} else {
		r.plans++
	}
	r.cut = refused.Nodes != nil && (r.plans == preemption.MaxDryRuns || r.spreads == preemption.MaxSpreadDryRuns)
	r.over = refused.Nodes == nil || r.cut
}

// findPassingPlan returns a plan that passes its dry run, nil if none does, and the last rejection. It begins with the given plan, if there is one.
func (q *preemptionAttempt) findPassingPlan(ctx context.Context, r *dryRunTally, units []int, plan *gangplan.Plan) (move *preemptionCandidate, why string) {
	for ; !r.over; plan = nil {
		if plan == nil {
			units, plan = q.searchVictims()
		}
		if plan == nil {
			r.over = q.left >= 0
			break
		}
		refused, steps := q.dryRunPlan(ctx, units, plan)
		if refused == nil {
			return q.newCandidate(units, plan), ""
		}
		q.left -= r.price * steps
		why = reason.KeptOutText(q.own.isSinglePod(), refused.Why)
		if r.recordRejection(refused); refused.Nodes != nil {
			q.barred[refused.Role] = refused.Nodes.Union(q.barred[refused.Role])
		}
	}
	return nil, why
}

// searchVictims returns the victims, and the plan for when they have left. It returns none if the search was cut short, because a victim of
// such an answer might not have been necessary.
func (q *preemptionAttempt) searchVictims() (units []int, plan *gangplan.Plan) {
	units, plan = gangplan.SelectVictims(gangplan.Eviction{
		Problem: q.NewProblem(q.kinds, q.standing, nil),
		Units:   q.occupants.asUnits(),
		Budgets: q.occupants.budgets,
		RoomWithout: func(node, role int, beside []int, gone func(int) bool) int {
			if q.left -= 1 + len(q.Infos[node].GetPods()); q.left < 0 || q.barred[role].Has(q.Infos[node].Node().Name) {
				return 0
			}
			if q.gonePods = q.occupants.appendGone(q.gonePods[:0], node, gone); len(q.gonePods) > 0 {
				return q.CapacityBeside(node, role, beside, placement.NodeChange{Gone: q.gonePods})
			}
			return q.FreeCapacity(node, role, beside)
		},
	})
	if q.left < 0 {
		return nil, nil
	}
	return units, plan
}

// dryRunPlan dry-runs a plan that needs victims.
func (q *preemptionAttempt) dryRunPlan(ctx context.Context, units []int, plan *gangplan.Plan) (refused *preemption.Rejection, steps int) {
	if len(units) == 0 {
		return nil, 0
	}
	leaves, leaving, others := q.occupants.markUnits(units), map[int][]fwk.PodInfo{}, map[int][]fwk.PodInfo{}
	for node := range q.occupants.on {
		if len(q.occupants.on[node]) > 0 {
			leaving[node] = q.occupants.gonePods(node, func(unit int) bool { return leaves[unit] })
			others[node] = q.occupants.gonePods(node, func(int) bool { return true })
		}
	}
	return q.dryRunner().DryRunPlacement(ctx, &preemption.PlannedPlacement{NodeDomain: q.NodeDomain, Kinds: q.kinds, Plan: plan, Leaving: leaving, Others: others})
}

func (q *preemptionAttempt) newCandidate(units []int, plan *gangplan.Plan) *preemptionCandidate {
	move := &preemptionCandidate{to: map[types.UID]string{}, borrowers: sets.New[types.UID]()}
	for _, unit := range units {
		of := &q.occupants.units[unit]
		move.victims = append(move.victims, of.pods...)
		for _, pod := range of.pods {
			if of.isBorrowing {
				move.borrowers.Insert(pod.UID)
			}
		}
	}
	for role := range q.kinds {
		for i, node := range plan.Places[role] {
			move.to[q.kinds[role].Pods[i].UID] = q.Infos[node].Node().Name
			move.awaitsTermination = move.awaitsTermination || slices.ContainsFunc(q.occupants.on[node], func(o occupant) bool { return o.unit < 0 })
		}
	}
	return move
}
