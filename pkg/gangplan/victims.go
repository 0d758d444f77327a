package gangplan

import (
	"cmp"
	"math"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// Eviction is a gang for which units may be evicted.
type Eviction struct {
	Problem
	// Units are the evictable units.
	Units []Unit
	// Budgets are how many evictions each disruption budget allows.
	Budgets []int
	// RoomWithout is Room when some of the units are gone.
	RoomWithout func(node, role int, beside []int, gone func(unit int) bool) int
}

// Unit is evicted as a whole or not at all: a pod, or a whole gang, which is useless without some of its members.
type Unit struct {
	Priority int64
	// Loss is what evicting it costs.
	Loss int64
	// Nodes are those that it is on.
	Nodes []int
	// Spends are the budgets that evicting it uses.
	Spends []Spend
}

// Spend is how much of a budget an eviction uses up.
type Spend struct{ Budget, Count int }

const (
	// maxPreferredUnits is the maximum number of units for a second search, for victims that let the segments of a gang that only prefers them lie
	// together.
	maxPreferredUnits = 2_000
	// maxUnitsBothOrders is the number of units beyond which only the first order of reprieve is tried.
	maxUnitsBothOrders = 4_000
)

// SelectVictims returns the units to evict for a gang, and its plan without them; no plan if none exists whichever units are evicted, and no victims
// if the gang fits as it is. The set is minimal: without any one of its evictions the others would not be enough. It has the lowest possible
// priorities, and among those the least loss. For segments that only should lie in one domain, no unit is evicted that the gang would not need
// anyway: among victims of equal cost, those are selected that let each segment lie in one domain.
func SelectVictims(e Eviction) (victims []int, plan *Plan) {
	c := newVictimSearch(&e)
	best, plan := c.cheapestPlan(c.candidateSets())
	if c.outOfSteps || plan == nil {
		return nil, nil
	}
	if e.Segments == nil || plan.Segmented || len(best.units) == 0 || len(e.Units) > maxPreferredUnits {
		return best.units, plan
	}
	c.requireSegments = true
	sets := slices.DeleteFunc(c.candidateSets(), func(t candidateSet) bool { return t.compareCost(best) > 0 })
	if wished, other := c.cheapestPlan(sets); other != nil && !c.outOfSteps && (other.Segmented || wished.compareCost(best) < 0) {
		return wished.units, other
	}
	return best.units, plan
}

// candidateSets returns sets of units whose eviction seems to make room, the cheapest first.
func (c *victimSearch) candidateSets() (sets []candidateSet) {
	for _, domain := range c.candidateDomains() {
		if c.couldHold(domain) {
			sets = append(sets, c.clearDomain(domain)...)
		}
	}
	slices.SortStableFunc(sets, candidateSet.compareCost)
	return sets
}

// cheapestPlan returns the cheapest of some sets with a plan. Several roles, which were counted separately, may need more: then the domain of the
// set is searched again, with all roles counted together.
func (c *victimSearch) cheapestPlan(sets []candidateSet) (candidateSet, *Plan) {
	again := map[*topology.Domain]bool{}
	for len(sets) > 0 {
		set := sets[0]
		sets = sets[1:]
		plan, ok := c.planWithout(set.units)
		if plan != nil || !ok {
			return set, plan
		}
		if set.together || again[set.domain] || len(c.Roles) == 1 && c.Segments == nil {
			continue
		}
		again[set.domain], c.together = true, true
		sets = append(sets, c.clearDomain(set.domain)...)
		c.together = false
		slices.SortStableFunc(sets, candidateSet.compareCost)
	}
	return candidateSet{}, nil
}

// planWithout returns the plan without some units, and false if there are no steps left to search for it.
func (c *victimSearch) planWithout(units []int) (plan *Plan, ok bool) {
	if !c.spendSteps(c.countNodes() * len(c.Roles)) {
		c.outOfSteps = true
		return nil, false
	}
	gone := make([]bool, len(c.Units))
	for _, unit := range units {
		gone[unit] = true
	}
	plan, _ = Make(c.problemWithout(gone))
	return plan, true
}

func (c *victimSearch) problemWithout(gone []bool) Problem {
	problem := c.Problem
	problem.Room = func(node, role int, beside []int) int {
		if beside == nil {
			return c.nodeState(node, gone).room[role]
		}
		return c.RoomWithout(node, role, beside, func(unit int) bool { return gone[unit] })
	}
	return problem
}

// candidateSet is a set of units to evict, and its cost.
type candidateSet struct {
	units    []int
	priority int64 // the highest of them
	loss     int64
	// domain is where there is room then, and together says that all roles were counted together.
	domain   *topology.Domain
	together bool
}

func (t candidateSet) compareCost(other candidateSet) int {
	if len(t.units) == 0 || len(other.units) == 0 {
		return cmp.Compare(len(t.units), len(other.units))
	}
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.loss, other.loss), cmp.Compare(len(t.units), len(other.units)))
}

// withUnit returns the set with one more unit.
func (t candidateSet) withUnit(number int, unit *Unit) candidateSet {
	if len(t.units) == 0 || unit.Priority > t.priority {
		t.priority = unit.Priority
	}
	t.units, t.loss = append(t.units, number), t.loss+min(unit.Loss, math.MaxInt64-t.loss)
	return t
}

// couldHold reports whether a domain has room for the gang without all evictable units, role by role: before any search.
func (c *victimSearch) couldHold(d *topology.Domain) bool {
	for role, count := range c.Roles {
		room := 0
		for _, node := range d.Nodes {
			room += c.emptyStates[node].room[role]
		}
		if room < count {
			return false
		}
	}
	return !slices.ContainsFunc(c.newSegmentRooms(c.emptyStates), func(k *segmentRoom) bool { return !c.holdsSegments(k) })
}

// candidateDomains returns the domains of which one has to hold the gang.
func (c *victimSearch) candidateDomains() []*topology.Domain {
	tiers := (&search{Problem: &c.Problem}).domainTiers()
	return tiers[len(tiers)-1]
}

// clearDomain returns sets of units to evict from a domain that could hold the gang. It evicts all units, and then reprieves units as long as
// the gang fits: those of high priority first, and among these the ones with the largest loss, either per member that they make room for, or in
// total. If budgets do not allow the eviction of all units, it first reprieves those that use up budgets and help the least.
func (c *victimSearch) clearDomain(d *topology.Domain) (sets []candidateSet) {
	p, units := c.newDomainRoom(d), c.unitsOn(d)
	c.setAllGone(p, units, true)
	if c.together {
		c.countRolesTogether(p)
	}
	if c.gangFits(p) {
		gains := c.roomGains(p, units)
		each := func(unit int) int64 { return c.Units[unit].Loss / int64(max(1, gains[unit])) }
		all := func(unit int) int64 { return c.Units[unit].Loss }
		orders := [][]int{c.returnOrder(units, each, nil, nil)}
		if len(units) <= maxUnitsBothOrders {
			orders = append(orders, c.returnOrder(units, all, nil, nil))
		}
		if short := c.overspentBudgets(units); short != nil {
			orders = append(orders, c.returnOrder(units, all, short, gains))
		}
		for _, order := range orders {
			if set, ok := c.reprieveUnits(p, units, order); ok {
				sets = append(sets, set)
			}
		}
		sets = c.addCheaperSet(p, units, sets)
	}
	if c.requireSegments {
		for i := range sets {
			sets[i] = c.neededUnits(p, units, sets[i])
		}
	}
	p.roles = nil
	c.setAllGone(p, units, false)
	for i := range sets {
		sets[i].domain, sets[i].together = d, c.together
	}
	return sets
}

// overspentBudgets returns the budgets that do not allow the eviction of all given units, nil for none.
func (c *victimSearch) overspentBudgets(units []int) map[int]bool {
	spent := make([]int, len(c.Budgets))
	for _, unit := range units {
		for _, spend := range c.Units[unit].Spends {
			spent[spend.Budget] += spend.Count
		}
	}
	var short map[int]bool
	for budget, left := range c.Budgets {
		if spent[budget] > left {
			if short == nil {
				short = map[int]bool{}
			}
			short[budget] = true
		}
	}
	return short
}

// neededUnits returns those of some units that the gang needs wherever its segments lie.
func (c *victimSearch) neededUnits(p *domainRoom, units []int, of candidateSet) candidateSet {
	c.setAllGone(p, units, false)
	c.setAllGone(p, of.units, true)
	anywhere := &domainRoom{Domain: p.Domain, inside: p.inside, room: slices.Clone(p.room)}
	order := c.returnOrder(of.units, func(unit int) int64 { return c.Units[unit].Loss }, nil, nil)
	of, _ = c.reprieveUnits(anywhere, of.units, order) // which restores the state
	c.setAllGone(p, units, true)
	return of
}

// roomGains returns how many members each unit makes room for if it is evicted last, by unit.
func (c *victimSearch) roomGains(p *domainRoom, units []int) []int {
	gains := make([]int, len(c.Units))
	for _, unit := range units {
		gains[unit] = sumCounts(p.room)
		c.setGone(p, unit, false)
		gains[unit] -= sumCounts(p.room)
		c.setGone(p, unit, true)
	}
	return gains
}

// returnOrder returns the order of reprieve: units of high priority first, and among these the most valuable ones. Before them come units that spend
// overspent budgets, those with the least gain first.
func (c *victimSearch) returnOrder(units []int, worth func(int) int64, short map[int]bool, gains []int) []int {
	type rank struct {
		unit, spends, gain    int
		priority, worth, loss int64
	}
	ranks := make([]rank, len(units))
	for i, unit := range units {
		of := &c.Units[unit]
		ranks[i] = rank{unit: unit, spends: 1, priority: of.Priority, worth: worth(unit), loss: of.Loss}
		if slices.ContainsFunc(of.Spends, func(s Spend) bool { return short[s.Budget] }) {
			ranks[i].spends, ranks[i].gain = 0, gains[unit]
		}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.spends, b.spends), cmp.Compare(a.gain, b.gain), cmp.Compare(b.priority, a.priority), cmp.Compare(b.worth, a.worth),
			cmp.Compare(b.loss, a.loss), cmp.Compare(a.unit, b.unit))
	})
	order := make([]int, len(units))
	for i := range ranks {
		order[i] = ranks[i].unit
	}
	return order
}

// reprieveUnits reprieves units in an order and returns those that cannot be reprieved, and false if budgets do not allow their eviction.
func (c *victimSearch) reprieveUnits(p *domainRoom, units, order []int) (t candidateSet, ok bool) {
	left := slices.Clone(c.Budgets)
	c.orderNodes(p, order)
	ok = true
	for _, unit := range order {
		if c.setGone(p, unit, false); c.gangFits(p) {
			continue
		}
		c.setGone(p, unit, true)
		if t = t.withUnit(unit, &c.Units[unit]); !spendBudgets(left, c.Units[unit].Spends, 1) {
			ok = false
			break
		}
	}
	c.setAllGone(p, units, true)
	slices.Sort(t.units)
	return t, ok
}

// spendBudgets subtracts the spending of an eviction, so many times, from the remaining budgets, and reports whether they suffice.
func spendBudgets(left []int, spends []Spend, times int) bool {
	enough := true
	for _, s := range spends {
		left[s.Budget] -= times * s.Count
		enough = enough && left[s.Budget] >= 0
	}
	return enough
}
