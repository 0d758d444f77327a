package gangplan

import "g8s.host/gpu-scheduler/pkg/topology"

// segmentRoom is the room for the segments of one role by domain, updated one node at a time.
type segmentRoom struct {
	*division
	room map[*topology.Domain]int
	// whole is how many of the largest segments have room, rests the domains that also have room for one of the second size, and short those
	// with too little room for their bound segments.
	whole, rests, short int
}

// newSegmentRooms returns the room of all domains, by role, for given node states; nil if segments need not lie in one domain.
func (c *victimSearch) newSegmentRooms(states []*state) []*segmentRoom {
	if c.Segments == nil || c.Segments.Preferred && !c.requireSegments {
		return nil
	}
	stocks := make([]*segmentRoom, len(c.Roles))
	for role, v := range divideSegments(&c.Problem) {
		k := &segmentRoom{division: v, room: map[*topology.Domain]int{}}
		for _, domain := range v.domains {
			for _, node := range domain.Nodes {
				k.room[domain] += states[node].room[role]
			}
			k.countDomain(domain, 1)
		}
		stocks[role] = k
	}
	return stocks
}

// changeRoom changes the room of a node.
func (k *segmentRoom) changeRoom(node, by int) {
	domain := k.tree.NodeDomain(node, k.level)
	k.countDomain(domain, -1)
	k.room[domain] += by
	k.countDomain(domain, 1)
}

// countDomain adds the room of a domain to the totals, or subtracts it.
func (k *segmentRoom) countDomain(d *topology.Domain, by int) {
	room := k.room[d] - k.pinned[d]
	switch {
	case room < 0:
		k.short += by
	case len(k.sizes) > 0 && d.Name != "":
		k.whole += by * (room / k.sizes[0])
		if len(k.sizes) > 1 && room%k.sizes[0] >= k.sizes[1] {
			k.rests += by
		}
	}
}

// holdsSegments reports whether there is room for all segments: by sums if all but one have the same size, and else domain by domain.
func (c *victimSearch) holdsSegments(k *segmentRoom) bool {
	switch {
	case k.short > 0:
		return false
	case len(k.sizes) == 0 || k.whole >= sumCounts(k.counts):
		return true
	case len(k.sizes) == 1 || k.whole < k.counts[0]:
		return false
	case len(k.sizes) == 2 && k.counts[1] == 1:
		return k.rests > 0
	}
	if !c.spendSteps(len(k.domains) * len(k.sizes)) {
		c.outOfSteps = true
		return false
	}
	return k.isAllPacked(k.packDomains(k.domains, func(d *topology.Domain) int { return k.room[d] }))
}
