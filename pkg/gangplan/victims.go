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
	// mostWished is the maximum number of units for a second search, for victims that let the segments of a gang that only prefers them lie
	// together.
	mostWished = 2_000
	// manyUnits is the number of units beyond which only the first order of reprieve is tried.
	manyUnits = 4_000
)

// Victims returns the units to evict for a gang, and its plan without them; no plan if none exists whichever units are evicted, and no victims
// if the gang fits as it is. The set is minimal: without any one of its evictions the others would not be enough. It has the lowest possible
// priorities, and among those the least loss. For segments that only should lie in one domain, no unit is evicted that the gang would not need
// anyway: among victims of equal cost, those are selected that let each segment lie in one domain.
func Victims(e Eviction) (victims []int, plan *Plan) {
	c := newClearing(&e)
	best, plan := c.cheapest(c.tolls())
	if c.exhausted || plan == nil {
		return nil, nil
	}
	if e.Segments == nil || plan.Segmented || len(best.units) == 0 || len(e.Units) > mostWished {
		return best.units, plan
	}
	c.strict = true
	sets := slices.DeleteFunc(c.tolls(), func(t toll) bool { return t.compare(best) > 0 })
	if wished, other := c.cheapest(sets); other != nil && !c.exhausted && (other.Segmented || wished.compare(best) < 0) {
		return wished.units, other
	}
	return best.units, plan
}

// tolls returns sets of units whose eviction seems to make room, the cheapest first.
func (c *clearing) tolls() (sets []toll) {
	for _, domain := range c.domains() {
		if c.couldHold(domain) {
			sets = append(sets, c.clear(domain)...)
		}
	}
	slices.SortStableFunc(sets, toll.compare)
	return sets
}

// cheapest returns the cheapest of some sets with a plan. Several roles, which were counted separately, may need more: then the domain of the
// set is searched again, with all roles counted together.
func (c *clearing) cheapest(sets []toll) (toll, *Plan) {
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
		sets = append(sets, c.clear(set.domain)...)
		c.together = false
		slices.SortStableFunc(sets, toll.compare)
	}
	return toll{}, nil
}

// planWithout returns the plan without some units, and false if there are no steps left to search for it.
func (c *clearing) planWithout(units []int) (plan *Plan, ok bool) {
	if !c.affords(c.nodes() * len(c.Roles)) {
		c.exhausted = true
		return nil, false
	}
	gone := make([]bool, len(c.Units))
	for _, unit := range units {
		gone[unit] = true
	}
	plan, _ = Make(c.problemWithout(gone))
	return plan, true
}

func (c *clearing) problemWithout(gone []bool) Problem {
	problem := c.Problem
	problem.Room = func(node, role int, beside []int) int {
		if beside == nil {
			return c.stateOf(node, gone).room[role]
		}
		return c.RoomWithout(node, role, beside, func(unit int) bool { return gone[unit] })
	}
	return problem
}

// toll is a set of units to evict, and its cost.
type toll struct {
	units    []int
	priority int64 // the highest of them
	loss     int64
	// domain is where there is room then, and together says that all roles were counted together.
	domain   *topology.Domain
	together bool
}

func (t toll) compare(other toll) int {
	if len(t.units) == 0 || len(other.units) == 0 {
		return cmp.Compare(len(t.units), len(other.units))
	}
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.loss, other.loss), cmp.Compare(len(t.units), len(other.units)))
}

// with returns the set with one more unit.
func (t toll) with(number int, unit *Unit) toll {
	if len(t.units) == 0 || unit.Priority > t.priority {
		t.priority = unit.Priority
	}
	t.units, t.loss = append(t.units, number), t.loss+min(unit.Loss, math.MaxInt64-t.loss)
	return t
}

// couldHold reports whether a domain has room for the gang without all evictable units, role by role: before any search.
func (c *clearing) couldHold(d *topology.Domain) bool {
	for role, count := range c.Roles {
		room := 0
		for _, node := range d.Nodes {
			room += c.most[node].room[role]
		}
		if room < count {
			return false
		}
	}
	return !slices.ContainsFunc(c.stocksOf(c.most), func(k *stock) bool { return !c.holds(k) })
}

// domains returns the domains of which one has to hold the gang.
func (c *clearing) domains() []*topology.Domain {
	tiers := (&search{Problem: &c.Problem}).tiers()
	return tiers[len(tiers)-1]
}

// clear returns sets of units to evict from a domain that could hold the gang. It evicts all units, and then reprieves units as long as
// the gang fits: those of high priority first, and among these the ones with the largest loss, either per member that they make room for, or in
// total. If budgets do not allow the eviction of all units, it first reprieves those that use up budgets and help the least.
func (c *clearing) clear(d *topology.Domain) (sets []toll) {
	p, units := c.placeOf(d), c.unitsOn(d)
	c.setAll(p, units, true)
	if c.together {
		c.gather(p)
	}
	if c.fits(p) {
		gains := c.gains(p, units)
		each := func(unit int) int64 { return c.Units[unit].Loss / int64(max(1, gains[unit])) }
		all := func(unit int) int64 { return c.Units[unit].Loss }
		orders := [][]int{c.order(units, each, nil, nil)}
		if len(units) <= manyUnits {
			orders = append(orders, c.order(units, all, nil, nil))
		}
		if short := c.overspent(units); short != nil {
			orders = append(orders, c.order(units, all, short, gains))
		}
		for _, order := range orders {
			if set, ok := c.pardon(p, units, order); ok {
				sets = append(sets, set)
			}
		}
		sets = c.weigh(p, units, sets)
	}
	if c.strict {
		for i := range sets {
			sets[i] = c.needed(p, units, sets[i])
		}
	}
	p.crew = nil
	c.setAll(p, units, false)
	for i := range sets {
		sets[i].domain, sets[i].together = d, c.together
	}
	return sets
}

// overspent returns the budgets that do not allow the eviction of all given units, nil for none.
func (c *clearing) overspent(units []int) map[int]bool {
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

// needed returns those of some units that the gang needs wherever its segments lie.
func (c *clearing) needed(p *place, units []int, of toll) toll {
	c.setAll(p, units, false)
	c.setAll(p, of.units, true)
	anywhere := &place{Domain: p.Domain, inside: p.inside, room: slices.Clone(p.room)}
	order := c.order(of.units, func(unit int) int64 { return c.Units[unit].Loss }, nil, nil)
	of, _ = c.pardon(anywhere, of.units, order) // which restores the state
	c.setAll(p, units, true)
	return of
}

// gains returns how many members each unit makes room for if it is evicted last, by unit.
func (c *clearing) gains(p *place, units []int) []int {
	gains := make([]int, len(c.Units))
	for _, unit := range units {
		gains[unit] = sum(p.room)
		c.set(p, unit, false)
		gains[unit] -= sum(p.room)
		c.set(p, unit, true)
	}
	return gains
}

// order returns the order of reprieve: units of high priority first, and among these the most valuable ones. Before them come units that spend
// overspent budgets, those with the least gain first.
func (c *clearing) order(units []int, worth func(int) int64, short map[int]bool, gains []int) []int {
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

// pardon reprieves units in an order and returns those that cannot be reprieved, and false if budgets do not allow their eviction.
func (c *clearing) pardon(p *place, units, order []int) (t toll, ok bool) {
	left := slices.Clone(c.Budgets)
	c.seatFirst(p, order)
	ok = true
	for _, unit := range order {
		if c.set(p, unit, false); c.fits(p) {
			continue
		}
		c.set(p, unit, true)
		if t = t.with(unit, &c.Units[unit]); !spend(left, c.Units[unit].Spends, 1) {
			ok = false
			break
		}
	}
	c.setAll(p, units, true)
	slices.Sort(t.units)
	return t, ok
}

// spend subtracts the spending of an eviction, so many times, from the remaining budgets, and reports whether they suffice.
func spend(left []int, spends []Spend, times int) bool {
	enough := true
	for _, s := range spends {
		left[s.Budget] -= times * s.Count
		enough = enough && left[s.Budget] >= 0
	}
	return enough
}
