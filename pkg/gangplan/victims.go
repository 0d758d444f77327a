package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// Eviction is a gang for which others may be made to leave.
type Eviction struct {
	Problem
	// Units are those that may be evicted.
	Units []Unit
	// RoomWithout is Room when some of the units are gone.
	RoomWithout func(node, role int, beside []int, gone func(unit int) bool) int
}

// Unit is evicted as a whole or not at all: a pod, or all of a gang, which is worth nothing without some of its members.
type Unit struct {
	Priority int32
	// Loss is what evicting it costs.
	Loss int64
	// Nodes are those that it is on.
	Nodes []int
}

// mostTried is how many sets of victims are tried for a plan, and mostWished how many units there may be at most to look for victims again,
// by whom the segments of a gang that only prefers them come to lie together.
const mostTried, mostWished = 4, 2_000

// Victims returns whom to evict for a gang, and the plan for it when they are gone; no plan if there is none whoever leaves,
// and no victims if it fits as it is. None of the victims could stay: with any one of them the others would not be enough.
// Those of the lowest priority go, and of these the ones that lose the least. For segments that only should lie in one domain nobody leaves
// who would not do so for the gang without: of victims that cost the same those are taken by whom each segment comes to lie in one.
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

// tolls are sets of units by whose leaving there seems to be room.
func (c *clearing) tolls() (sets []toll) {
	for _, domain := range c.domains() {
		if c.couldHold(domain) {
			sets = append(sets, c.clear(domain)...)
		}
	}
	slices.SortStableFunc(sets, toll.compare)
	return sets
}

// cheapest is the first of some sets with which there is a plan, of those that cost the least.
func (c *clearing) cheapest(sets []toll) (toll, *Plan) {
	for _, set := range sets[:min(len(sets), mostTried)] {
		gone := make([]bool, len(c.Units))
		for _, unit := range set.units {
			gone[unit] = true
		}
		problem := c.Problem
		problem.Room = func(node, role int, beside []int) int {
			return c.RoomWithout(node, role, beside, func(unit int) bool { return gone[unit] })
		}
		if plan, _ := Make(problem); plan != nil {
			return set, plan
		}
	}
	return toll{}, nil
}

// toll is units that are to leave, and what that costs.
type toll struct {
	units    []int
	priority int32 // the highest of them
	loss     int64
}

func (t toll) compare(other toll) int {
	if len(t.units) == 0 || len(other.units) == 0 {
		return cmp.Compare(len(t.units), len(other.units))
	}
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.loss, other.loss), cmp.Compare(len(t.units), len(other.units)))
}

// clearing is the search for units to evict: who is gone, and the room that there is then.
type clearing struct {
	*Eviction
	gone []bool
	// room is by role and node, and most what it is when nobody is there who may be evicted. on is the units by node.
	room, most [][]int
	on         map[int][]int
	// strict says that segments have to lie in one domain each that only should.
	strict bool
	// exhausted says that it could not be looked at all that it takes, so that who leaves might have stayed.
	exhausted bool
}

func newClearing(e *Eviction) *clearing {
	c := &clearing{Eviction: e, gone: make([]bool, len(e.Units)), room: make([][]int, len(e.Roles)), most: make([][]int, len(e.Roles)), on: map[int][]int{}}
	for unit := range e.Units {
		for _, node := range e.Units[unit].Nodes {
			c.on[node] = append(c.on[node], unit)
		}
	}
	for role := range c.room {
		c.room[role], c.most[role] = make([]int, e.nodes()), make([]int, e.nodes())
		for _, node := range e.Tree.Root.Nodes {
			c.most[role][node] = e.RoomWithout(node, role, nil, func(int) bool { return true })
			c.room[role][node] = c.most[role][node]
			if len(c.on[node]) > 0 {
				c.room[role][node] = c.roomOn(node, role)
			}
		}
	}
	return c
}

// couldHold says whether a domain has room for the gang when all have left that may be evicted: before any search.
func (c *clearing) couldHold(d *topology.Domain) bool {
	for role, count := range c.Roles {
		room := 0
		for _, node := range d.Nodes {
			room += c.most[role][node]
		}
		if room < count {
			return false
		}
	}
	return !slices.ContainsFunc(c.stocksOf(c.most), func(k *stock) bool { return !c.holds(k) })
}

func (c *clearing) roomOn(node, role int) int {
	return c.RoomWithout(node, role, nil, func(unit int) bool { return c.gone[unit] })
}

// domains are those of which one has to hold the gang.
func (c *clearing) domains() []*topology.Domain {
	tiers := (&search{Problem: &c.Problem}).tiers()
	return tiers[len(tiers)-1]
}

// place is the domain that is looked at, and how many members of each role it has room for.
type place struct {
	inside map[int]bool
	room   []int
	// stocks are what it has room for in segments, by role; nil where there are none.
	stocks []*stock
}

// clear returns sets of units to evict from a domain that could hold the gang. First all are gone, then they come back as long as the gang fits: those of high priority first, and of these the ones that lose the
// most, for each member that they would make room for, or all in all.
func (c *clearing) clear(d *topology.Domain) []toll {
	p := &place{inside: make(map[int]bool, len(d.Nodes)), room: make([]int, len(c.Roles)), stocks: c.stocksOf(c.room)}
	var units []int
	for _, node := range d.Nodes {
		p.inside[node] = true
		units = append(units, c.on[node]...)
		for role := range c.Roles {
			p.room[role] += c.room[role][node]
		}
	}
	slices.Sort(units)
	units = slices.Compact(units)
	for _, unit := range units {
		c.set(p, unit, true)
	}
	gains := c.gains(p, units)
	each := func(unit int) int64 { return c.Units[unit].Loss / int64(max(1, gains[unit])) }
	all := func(unit int) int64 { return c.Units[unit].Loss }
	sets := []toll{c.pardon(p, units, each), c.pardon(p, units, all)}
	if c.strict {
		for i := range sets {
			sets[i] = c.needed(p, units, sets[i])
		}
	}
	for _, unit := range units {
		c.set(p, unit, false)
	}
	return sets
}

// needed returns those of some units that the gang could not do without wherever its segments lay.
func (c *clearing) needed(p *place, units []int, of toll) toll {
	for _, unit := range units {
		_, leaves := slices.BinarySearch(of.units, unit)
		c.set(p, unit, leaves)
	}
	anywhere := &place{inside: p.inside, room: slices.Clone(p.room)}
	of = c.pardon(anywhere, of.units, func(unit int) int64 { return c.Units[unit].Loss }) // which leaves all as it is
	for _, unit := range units {
		c.set(p, unit, true)
	}
	return of
}

// set has a unit leave or come back.
func (c *clearing) set(p *place, unit int, gone bool) {
	if c.gone[unit] == gone {
		return
	}
	c.gone[unit] = gone
	for _, node := range c.Units[unit].Nodes {
		for role := range c.Roles {
			room := c.roomOn(node, role)
			if p.inside[node] {
				p.room[role] += room - c.room[role][node]
				if p.stocks != nil {
					p.stocks[role].change(node, room-c.room[role][node])
				}
			}
			c.room[role][node] = room
		}
	}
}

func (c *clearing) fits(p *place) bool {
	for role, count := range c.Roles {
		if p.room[role] < count {
			return false
		}
	}
	return !slices.ContainsFunc(p.stocks, func(k *stock) bool { return !c.holds(k) })
}

// gains is how many members each unit makes room for that leaves last.
func (c *clearing) gains(p *place, units []int) map[int]int {
	gains := make(map[int]int, len(units))
	for _, unit := range units {
		for _, room := range p.room {
			gains[unit] += room
		}
		c.set(p, unit, false)
		for _, room := range p.room {
			gains[unit] -= room
		}
		c.set(p, unit, true)
	}
	return gains
}

// pardon returns the units that cannot stay when the others are looked at in the order of a worth.
func (c *clearing) pardon(p *place, units []int, worth func(int) int64) toll {
	order := slices.Clone(units)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.Units[b].Priority, c.Units[a].Priority), cmp.Compare(worth(b), worth(a)), cmp.Compare(c.Units[b].Loss, c.Units[a].Loss))
	})
	var t toll
	for _, unit := range order {
		if c.set(p, unit, false); c.fits(p) {
			continue
		}
		c.set(p, unit, true)
		if len(t.units) == 0 || c.Units[unit].Priority > t.priority {
			t.priority = c.Units[unit].Priority
		}
		t.units, t.loss = append(t.units, unit), t.loss+c.Units[unit].Loss
	}
	for _, unit := range units {
		c.set(p, unit, true)
	}
	slices.Sort(t.units)
	return t
}
