package gangplan

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// victimSearch is the search for units to evict: which units are gone, and the room without them.
type victimSearch struct {
	*Eviction
	gone []bool
	// states are what the nodes take now, and emptyStates what they take without any evictable pods. on are the units by node.
	states, emptyStates []*state
	on                  [][]int
	// stateCaches are the states of nodes by which of the first 64 units on them are gone, and spareStates preallocated states.
	stateCaches []stateCache
	spareStates []state
	rooms       []int
	// requireSegments says that segments that should lie in one domain each must do so. together says that all roles are counted together.
	requireSegments, together bool
	// outOfSteps says that the search ran out of steps, so that some victims of its answer might not be necessary.
	outOfSteps bool
}

// state is what a node takes while some units are gone.
type state struct {
	// room is how many members of each role it takes, without other roles.
	room []int
	// mixes are the mixtures of members that it takes, computed on first use.
	mixes [][]int
	mixed bool
}

// stateCache are the counted states of a node, by a mask of the units that are gone: in a list, or in a map if the list would be long.
type stateCache struct {
	masks  []uint64
	states []*state
	byMask map[uint64]*state
}

// maxListed is how many entries are searched linearly.
const maxListed = 24

func (k *stateCache) getState(mask uint64) *state {
	if i := slices.Index(k.masks, mask); i >= 0 {
		return k.states[i]
	}
	return k.byMask[mask]
}

func (k *stateCache) putState(mask uint64, s *state) {
	switch {
	case len(k.masks) < maxListed:
		k.masks, k.states = append(k.masks, mask), append(k.states, s)
	case k.byMask == nil:
		k.byMask = map[uint64]*state{mask: s}
	default:
		k.byMask[mask] = s
	}
}

func newVictimSearch(e *Eviction) *victimSearch {
	nodes := e.countNodes()
	c := &victimSearch{Eviction: e, gone: make([]bool, len(e.Units)), states: make([]*state, nodes), emptyStates: make([]*state, nodes), on: make([][]int, nodes), stateCaches: make([]stateCache, nodes)}
	for unit := range e.Units {
		e.Units[unit].Nodes = uniqueNumbers(e.Units[unit].Nodes)
		for _, node := range e.Units[unit].Nodes {
			c.on[node] = append(c.on[node], unit)
		}
		c.gone[unit] = true
	}
	for _, node := range e.Tree.Root.Nodes {
		c.emptyStates[node] = c.nodeState(node, c.gone)
	}
	clear(c.gone)
	for _, node := range e.Tree.Root.Nodes {
		c.states[node] = c.emptyStates[node]
		if len(c.on[node]) > 0 {
			c.states[node] = c.nodeState(node, c.gone)
		}
	}
	return c
}

// uniqueNumbers returns the sorted numbers without duplicates.
func uniqueNumbers(numbers []int) []int {
	if len(numbers) < 2 || slices.IsSorted(numbers) && len(slices.Compact(slices.Clone(numbers))) == len(numbers) {
		return numbers
	}
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// nodeState is the state of a node with some units gone.
func (c *victimSearch) nodeState(node int, gone []bool) *state {
	mask := uint64(0)
	if len(c.on[node]) > 64 {
		return c.countRoom(node, gone)
	}
	for i, unit := range c.on[node] {
		if gone[unit] {
			mask |= 1 << i
		}
	}
	s := c.stateCaches[node].getState(mask)
	if s == nil {
		s = c.countRoom(node, gone)
		c.stateCaches[node].putState(mask, s)
	}
	return s
}

func (c *victimSearch) countRoom(node int, gone []bool) *state {
	s := c.newState()
	for role := range s.room {
		s.room[role] = c.RoomWithout(node, role, nil, func(unit int) bool { return gone[unit] })
	}
	return s
}

// newState allocates states in batches.
func (c *victimSearch) newState() *state {
	const many = 256
	roles := len(c.Roles)
	if len(c.spareStates) == 0 {
		c.spareStates, c.rooms = make([]state, many), make([]int, many*roles)
	}
	s := &c.spareStates[0]
	s.room = c.rooms[:roles:roles]
	c.spareStates, c.rooms = c.spareStates[1:], c.rooms[roles:]
	return s
}

func (c *victimSearch) isGone(unit int) bool { return c.gone[unit] }

// mixesOn are the mixtures of members that a node takes in its state.
func (c *victimSearch) mixesOn(node int) [][]int {
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

// domainRoom is the current domain, and how many members of each role it has room for.
type domainRoom struct {
	*topology.Domain
	inside []bool
	room   []int
	// segmentRooms are its room for segments, by role; nil if there are none.
	segmentRooms []*segmentRoom
	// roles are the members of several roles, nil if roles are counted separately. value is what the nodes take by its weights.
	roles   *roleGroup
	weights [2][]int
	value   [2]int
	// taken is the last complete placement, and touched the nodes that have changed since.
	taken   map[int][]int
	touched []int
}

func (c *victimSearch) newDomainRoom(d *topology.Domain) *domainRoom {
	p := &domainRoom{Domain: d, inside: make([]bool, c.countNodes()), room: make([]int, len(c.Roles)), segmentRooms: c.newSegmentRooms(c.states)}
	for _, node := range d.Nodes {
		p.inside[node] = true
		for role := range c.Roles {
			p.room[role] += c.states[node].room[role]
		}
	}
	return p
}

// countRolesTogether counts all roles of a gang together.
func (c *victimSearch) countRolesTogether(p *domainRoom) {
	if len(c.Roles) == 1 || p.segmentRooms != nil {
		return
	}
	p.roles = &roleGroup{want: c.Roles, nodes: p.Nodes, mixes: c.mixesOn, spendSteps: c.spendSteps}
	p.weights = p.roles.roleWeights()
	p.value = p.roles.totalValue(p.weights)
}

func (c *victimSearch) unitsOn(d *topology.Domain) (units []int) {
	for _, node := range d.Nodes {
		units = append(units, c.on[node]...)
	}
	slices.Sort(units)
	return slices.Compact(units)
}

// setGone evicts a unit or brings it back.
func (c *victimSearch) setGone(p *domainRoom, unit int, gone bool) {
	if c.gone[unit] == gone {
		return
	}
	c.gone[unit] = gone
	for _, node := range c.Units[unit].Nodes {
		c.refreshNode(p, node)
	}
}

// setAllGone is setGone for several units. A node with several of them is counted once, and not after each.
func (c *victimSearch) setAllGone(p *domainRoom, units []int, gone bool) {
	var changed []int
	for _, unit := range units {
		if c.gone[unit] != gone {
			c.gone[unit] = gone
			changed = append(changed, c.Units[unit].Nodes...)
		}
	}
	slices.Sort(changed)
	for _, node := range slices.Compact(changed) {
		c.refreshNode(p, node)
	}
}

// refreshNode counts what a node takes after a change of its units.
func (c *victimSearch) refreshNode(p *domainRoom, node int) {
	before, after := c.states[node], c.nodeState(node, c.gone)
	if c.states[node] = after; !p.inside[node] {
		return
	}
	if p.roles != nil {
		was, is := nodeValue(before.mixes, p.weights), nodeValue(c.mixesOn(node), p.weights)
		p.value[0], p.value[1], p.touched = p.value[0]+is[0]-was[0], p.value[1]+is[1]-was[1], append(p.touched, node)
	}
	for role := range c.Roles {
		p.room[role] += after.room[role] - before.room[role]
		if p.segmentRooms != nil {
			p.segmentRooms[role].changeRoom(node, after.room[role]-before.room[role])
		}
	}
}

// gangFits reports whether the gang has room in the current state: role by role, or for all roles together.
func (c *victimSearch) gangFits(p *domainRoom) bool {
	for role, count := range c.Roles {
		if p.room[role] < count {
			return false
		}
	}
	if slices.ContainsFunc(p.segmentRooms, func(k *segmentRoom) bool { return !c.holdsSegments(k) }) {
		return false
	}
	return !c.together || c.rolesFitTogether(p)
}

// rolesFitTogether searches for places of all roles. With segments it makes a whole plan, since nothing less is conclusive.
func (c *victimSearch) rolesFitTogether(p *domainRoom) bool {
	if p.segmentRooms != nil {
		if !c.spendSteps(8 * c.countNodes() * len(c.Roles)) {
			c.outOfSteps = true
			return false
		}
		problem := c.problemWithout(c.gone)
		segments := *c.Segments
		segments.Preferred = false
		problem.Segments = &segments
		plan, _ := Make(problem)
		return plan != nil
	}
	if p.roles == nil {
		return true
	}
	if !p.roles.mayHoldAll(p.value, p.weights) {
		return false
	}
	if p.taken != nil && !slices.ContainsFunc(p.touched, func(node int) bool { return !c.nodeTakes(node, p.taken[node]) }) {
		p.touched = p.touched[:0]
		return true
	}
	if !c.spendSteps(4 * len(p.Nodes)) {
		c.outOfSteps = true
		return false
	}
	taken := p.roles.placeByWeights(p.weights)
	if taken != nil {
		p.taken, p.touched = taken, p.touched[:0]
	}
	return taken != nil
}

// nodeTakes reports whether a node takes some members of each role now, nil for none.
func (c *victimSearch) nodeTakes(node int, counts []int) bool {
	return counts == nil || slices.ContainsFunc(c.mixesOn(node), func(mix []int) bool { return coversMix(mix, counts) })
}

// orderNodes places members of several roles first on the nodes that change last when units come back in a given order.
func (c *victimSearch) orderNodes(p *domainRoom, order []int) {
	if p.roles == nil {
		return
	}
	changes := make([]int, c.countNodes())
	for i := len(order) - 1; i >= 0; i-- {
		for _, node := range c.Units[order[i]].Nodes {
			changes[node] = len(order) - i
		}
	}
	nodes := slices.Clone(p.Nodes)
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(changes[a], changes[b]) })
	p.roles.nodes, p.taken = nodes, nil
}
