package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// clearing is the search for units to evict: which units are gone, and the room without them.
type clearing struct {
	*Eviction
	gone []bool
	// states are what the nodes take now, and emptyStates what they take without any evictable pods. on are the units by node.
	states, most []*state
	on           [][]int
	// known are the states of nodes by which of the first 64 units on them are gone, and spareStates preallocated states.
	known []known
	spare []state
	rooms []int
	// strict says that segments that should lie in one domain each must do so. together says that all roles are counted together.
	strict, together bool
	// exhausted says that the search ran out of steps, so that some victims of its answer might not be necessary.
	exhausted bool
}

// state is what a node takes while some units are gone.
type state struct {
	// room is how many members of each role it takes, without other roles.
	room []int
	// mixes are the mixtures of members that it takes, computed on first use.
	mixes [][]int
	mixed bool
}

// known are the counted states of a node, by a mask of the units that are gone: in a list, or in a map if the list would be long.
type known struct {
	masks  []uint64
	states []*state
	more   map[uint64]*state
}

// fewKnown is how many entries are searched linearly.
const fewKnown = 24

func (k *known) of(mask uint64) *state {
	if i := slices.Index(k.masks, mask); i >= 0 {
		return k.states[i]
	}
	return k.more[mask]
}

func (k *known) add(mask uint64, s *state) {
	switch {
	case len(k.masks) < fewKnown:
		k.masks, k.states = append(k.masks, mask), append(k.states, s)
	case k.more == nil:
		k.more = map[uint64]*state{mask: s}
	default:
		k.more[mask] = s
	}
}

func newClearing(e *Eviction) *clearing {
	nodes := e.nodes()
	c := &clearing{Eviction: e, gone: make([]bool, len(e.Units)), states: make([]*state, nodes), most: make([]*state, nodes), on: make([][]int, nodes), known: make([]known, nodes)}
	for unit := range e.Units {
		e.Units[unit].Nodes = distinct(e.Units[unit].Nodes)
		for _, node := range e.Units[unit].Nodes {
			c.on[node] = append(c.on[node], unit)
		}
		c.gone[unit] = true
	}
	for _, node := range e.Tree.Root.Nodes {
		c.most[node] = c.stateOf(node, c.gone)
	}
	clear(c.gone)
	for _, node := range e.Tree.Root.Nodes {
		c.states[node] = c.most[node]
		if len(c.on[node]) > 0 {
			c.states[node] = c.stateOf(node, c.gone)
		}
	}
	return c
}

// distinct returns the sorted numbers without duplicates.
func distinct(numbers []int) []int {
	if len(numbers) < 2 || slices.IsSorted(numbers) && len(slices.Compact(slices.Clone(numbers))) == len(numbers) {
		return numbers
	}
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// stateOf is the state of a node with some units gone.
func (c *clearing) stateOf(node int, gone []bool) *state {
	mask := uint64(0)
	if len(c.on[node]) > 64 {
		return c.count(node, gone)
	}
	for i, unit := range c.on[node] {
		if gone[unit] {
			mask |= 1 << i
		}
	}
	s := c.known[node].of(mask)
	if s == nil {
		s = c.count(node, gone)
		c.known[node].add(mask, s)
	}
	return s
}

func (c *clearing) count(node int, gone []bool) *state {
	s := c.newState()
	for role := range s.room {
		s.room[role] = c.RoomWithout(node, role, nil, func(unit int) bool { return gone[unit] })
	}
	return s
}

// newState allocates states in batches.
func (c *clearing) newState() *state {
	const many = 256
	roles := len(c.Roles)
	if len(c.spare) == 0 {
		c.spare, c.rooms = make([]state, many), make([]int, many*roles)
	}
	s := &c.spare[0]
	s.room = c.rooms[:roles:roles]
	c.spare, c.rooms = c.spare[1:], c.rooms[roles:]
	return s
}

func (c *clearing) isGone(unit int) bool { return c.gone[unit] }

// mixesOn are the mixtures of members that a node takes in its state.
func (c *clearing) mixesOn(node int) [][]int {
	s := c.states[node]
	if !s.mixed {
		s.mixed = true
		s.mixes = mixesOf(c.Roles, func(role int, beside []int) int {
			if beside == nil || s.room[role] == 0 {
				return s.room[role]
			}
			return c.RoomWithout(node, role, beside, c.isGone)
		})
	}
	return s.mixes
}

// place is the current domain, and how many members of each role it has room for.
type place struct {
	*topology.Domain
	inside []bool
	room   []int
	// stocks are its room for segments, by role; nil if there are none.
	stocks []*stock
	// crew are the members of several roles, nil if roles are counted separately. value is what the nodes take by its weights.
	crew    *crew
	weights [2][]int
	value   [2]int
	// taken is the last complete placement, and touched the nodes that have changed since.
	taken   map[int][]int
	touched []int
}

func (c *clearing) placeOf(d *topology.Domain) *place {
	p := &place{Domain: d, inside: make([]bool, c.nodes()), room: make([]int, len(c.Roles)), stocks: c.stocksOf(c.states)}
	for _, node := range d.Nodes {
		p.inside[node] = true
		for role := range c.Roles {
			p.room[role] += c.states[node].room[role]
		}
	}
	return p
}

// gather counts all roles of a gang together.
func (c *clearing) gather(p *place) {
	if len(c.Roles) == 1 || p.stocks != nil {
		return
	}
	p.crew = &crew{want: c.Roles, nodes: p.Nodes, mixes: c.mixesOn, affords: c.affords}
	p.weights = p.crew.weights()
	p.value = p.crew.value(p.weights)
}

func (c *clearing) unitsOn(d *topology.Domain) (units []int) {
	for _, node := range d.Nodes {
		units = append(units, c.on[node]...)
	}
	slices.Sort(units)
	return slices.Compact(units)
}

// set evicts a unit or brings it back.
func (c *clearing) set(p *place, unit int, gone bool) {
	if c.gone[unit] == gone {
		return
	}
	c.gone[unit] = gone
	for _, node := range c.Units[unit].Nodes {
		c.renew(p, node)
	}
}

// setAll is setGone for several units. A node with several of them is counted once, and not after each.
func (c *clearing) setAll(p *place, units []int, gone bool) {
	var changed []int
	for _, unit := range units {
		if c.gone[unit] != gone {
			c.gone[unit] = gone
			changed = append(changed, c.Units[unit].Nodes...)
		}
	}
	slices.Sort(changed)
	for _, node := range slices.Compact(changed) {
		c.renew(p, node)
	}
}

// renew counts what a node takes after a change of its units.
func (c *clearing) renew(p *place, node int) {
	before, after := c.states[node], c.stateOf(node, c.gone)
	if c.states[node] = after; !p.inside[node] {
		return
	}
	if p.crew != nil {
		was, is := valueOf(before.mixes, p.weights), valueOf(c.mixesOn(node), p.weights)
		p.value[0], p.value[1], p.touched = p.value[0]+is[0]-was[0], p.value[1]+is[1]-was[1], append(p.touched, node)
	}
	for role := range c.Roles {
		p.room[role] += after.room[role] - before.room[role]
		if p.stocks != nil {
			p.stocks[role].change(node, after.room[role]-before.room[role])
		}
	}
}

// fits reports whether the gang has room in the current state: role by role, or for all roles together.
func (c *clearing) fits(p *place) bool {
	for role, count := range c.Roles {
		if p.room[role] < count {
			return false
		}
	}
	if slices.ContainsFunc(p.stocks, func(k *stock) bool { return !c.holds(k) }) {
		return false
	}
	return !c.together || c.fitTogether(p)
}

// fitTogether searches for places of all roles. With segments it makes a whole plan, since nothing less is conclusive.
func (c *clearing) fitTogether(p *place) bool {
	if p.stocks != nil {
		if !c.affords(8 * c.nodes() * len(c.Roles)) {
			c.exhausted = true
			return false
		}
		problem := c.problemWithout(c.gone)
		segments := *c.Segments
		segments.Preferred = false
		problem.Segments = &segments
		plan, _ := Make(problem)
		return plan != nil
	}
	if p.crew == nil {
		return true
	}
	if !p.crew.enough(p.value, p.weights) {
		return false
	}
	if p.taken != nil && !slices.ContainsFunc(p.touched, func(node int) bool { return !c.takes(node, p.taken[node]) }) {
		p.touched = p.touched[:0]
		return true
	}
	if !c.affords(4 * len(p.Nodes)) {
		c.exhausted = true
		return false
	}
	taken := p.crew.seatBy(p.weights)
	if taken != nil {
		p.taken, p.touched = taken, p.touched[:0]
	}
	return taken != nil
}

// takes reports whether a node takes some members of each role now, nil for none.
func (c *clearing) takes(node int, counts []int) bool {
	return counts == nil || slices.ContainsFunc(c.mixesOn(node), func(mix []int) bool { return covers(mix, counts) })
}

// seatFirst places members of several roles first on the nodes that change last when units come back in a given order.
func (c *clearing) seatFirst(p *place, order []int) {
	if p.crew == nil {
		return
	}
	changes := make([]int, c.nodes())
	for i := len(order) - 1; i >= 0; i-- {
		for _, node := range c.Units[order[i]].Nodes {
			changes[node] = len(order) - i
		}
	}
	nodes := slices.Clone(p.Nodes)
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(changes[a], changes[b]) })
	p.crew.nodes, p.taken = nodes, nil
}
