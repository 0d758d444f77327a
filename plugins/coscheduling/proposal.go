package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// proposal is a large set of victims for a gang, and the placement of its members. The next attempt dry-runs it: search and dry run together
// would block other pods for too long.
type proposal struct {
	areaKey string
	// nodes are the nodes of the search, and now is how many members they took as they were, by role.
	nodes []string
	now   [][]int
	// victims are the victims, and plan uses the numbers of nodes.
	victims [][]*corev1.Pod
	plan    *gangplan.Plan
}

// needsMoreSteps reports whether the dry run of a result takes more steps than are left.
func (f *searchResult) needsMoreSteps() bool {
	pods := f.countMembers()
	for _, unit := range f.units {
		pods += len(f.occupants.units[unit].pods)
	}
	return dryRunSteps*pods > max(f.left, f.budget/4)
}

func (f *searchResult) newProposal() *proposal {
	of := &proposal{areaKey: f.field.key, now: f.FreeSlots, plan: f.plan}
	for _, info := range f.Infos {
		of.nodes = append(of.nodes, info.Node().Name)
	}
	for _, unit := range f.units {
		of.victims = append(of.victims, f.occupants.units[unit].pods)
	}
	return of
}

// reviewProposal returns the proposal as of now, nil if it is outdated: there is new room, a victim must stay, or there is too little room
// without the victims.
func (q *preemptionAttempt) reviewProposal(of *proposal) *searchResult {
	at := q.NodeNumbers(of.nodes)
	if len(at) != len(of.nodes) || !slices.IsSorted(at) {
		return nil // a node is gone, or the list is in another order
	}
	part := q.restrictToNodes(at)
	part.left = q.left - readSteps*part.countPods()
	if len(part.Infos) != len(of.nodes) {
		return nil
	}
	for role := range of.now {
		for node, room := range of.now[role] {
			if part.FreeSlots[role][node] > room {
				return nil
			}
		}
	}
	units, ok := part.unitsAmong(of.victims)
	if !ok {
		return nil
	}
	if units, ok = part.completeUnits(units, of.plan); !ok || !part.allowedByBudgets(units) {
		return nil
	}
	return &searchResult{preemptionAttempt: part, field: &searchArea{key: of.areaKey}, units: units, plan: of.plan}
}

// unitsAmong returns the units of proposed victims that are still there, and false if one of them may no longer be evicted.
func (q *preemptionAttempt) unitsAmong(leave [][]*corev1.Pod) (units []int, ok bool) {
	of := make(map[types.UID]int, len(q.occupants.units))
	for unit := range q.occupants.units {
		if len(q.occupants.units[unit].nodes) == 0 {
			continue // a budget keeps it
		}
		for _, pod := range q.occupants.units[unit].pods {
			of[pod.UID] = unit
		}
	}
	var there sets.Set[types.UID]
	for _, pods := range leave {
		for _, pod := range pods {
			if unit, known := of[pod.UID]; known {
				units = append(units, unit)
				continue
			}
			if there == nil {
				there = q.remainingPods()
			}
			if there.Has(pod.UID) {
				return nil, false
			}
		}
	}
	slices.Sort(units)
	return slices.Compact(units), true
}

// remainingPods returns the pods on the nodes that are not terminating.
func (q *preemptionAttempt) remainingPods() sets.Set[types.UID] {
	there := sets.New[types.UID]()
	for _, info := range q.Infos {
		for _, on := range info.GetPods() {
			if pod := on.GetPod(); pod.DeletionTimestamp == nil {
				there.Insert(pod.UID)
			}
		}
	}
	return there
}

// completeUnits adds units that have arrived on their nodes since, as far as the plan needs their places. It returns false if there is too
// little room all the same.
func (q *preemptionAttempt) completeUnits(units []int, plan *gangplan.Plan) (all []int, ok bool) {
	leaves, to := q.occupants.markUnits(units), map[int][]int{}
	gone := func(unit int) bool { return leaves[unit] }
	for role, places := range plan.Places {
		for _, node := range places {
			if to[node] == nil {
				to[node] = make([]int, len(plan.Places))
			}
			to[node][role]++
		}
	}
	for node, counts := range to {
		for _, o := range q.occupants.on[node] {
			if q.hasRoomFor(node, counts, gone) {
				break
			}
			if o.unit >= 0 && len(q.occupants.units[o.unit].pods) == 1 {
				leaves[o.unit] = true
			}
		}
		if !q.hasRoomFor(node, counts, gone) {
			return nil, false
		}
	}
	for unit := range leaves {
		if leaves[unit] {
			all = append(all, unit)
		}
	}
	return all, true
}

// hasRoomFor reports whether a node has room for so many members of each role without some units.
func (q *preemptionAttempt) hasRoomFor(node int, counts []int, gone func(int) bool) bool {
	beside := make([]int, len(counts))
	q.gonePods = q.occupants.appendGone(q.gonePods[:0], node, gone)
	for role, count := range counts {
		if count > 0 && (q.barred[role].Has(q.Infos[node].Node().Name) || q.CapacityBeside(node, role, beside, placement.NodeChange{Gone: q.gonePods}) < count) {
			return false
		}
		beside[role] = count
	}
	return true
}

// allowedByBudgets reports whether budgets allow the eviction of some units.
func (q *preemptionAttempt) allowedByBudgets(units []int) bool {
	left := slices.Clone(q.occupants.budgets)
	for _, unit := range units {
		for _, spend := range q.occupants.units[unit].spends {
			if left[spend.Budget] -= spend.Count; left[spend.Budget] < 0 {
				return false
			}
		}
	}
	return true
}
