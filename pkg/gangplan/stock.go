package gangplan

import "g8s.host/gpu-scheduler/pkg/topology"

// stock is the room for the segments of one role by domain, updated one node at a time.
type stock struct {
	*division
	room map[*topology.Domain]int
	// whole is how many of the largest segments have room, rests the domains that also have room for one of the second size, and short those
	// with too little room for their bound segments.
	whole, rests, short int
}

// stocksOf returns the room of all domains, by role, for given node states; nil if segments need not lie in one domain.
func (c *clearing) stocksOf(states []*state) []*stock {
	if c.Segments == nil || c.Segments.Preferred && !c.strict {
		return nil
	}
	stocks := make([]*stock, len(c.Roles))
	for role, v := range divide(&c.Problem) {
		k := &stock{division: v, room: map[*topology.Domain]int{}}
		for _, domain := range v.domains {
			for _, node := range domain.Nodes {
				k.room[domain] += states[node].room[role]
			}
			k.count(domain, 1)
		}
		stocks[role] = k
	}
	return stocks
}

// change changes the room of a node.
func (k *stock) change(node, by int) {
	domain := k.tree.Of(node, k.level)
	k.count(domain, -1)
	k.room[domain] += by
	k.count(domain, 1)
}

// count adds the room of a domain to the totals, or subtracts it.
func (k *stock) count(d *topology.Domain, by int) {
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

// holds reports whether there is room for all segments: by sums if all but one have the same size, and else domain by domain.
func (c *clearing) holds(k *stock) bool {
	switch {
	case k.short > 0:
		return false
	case len(k.sizes) == 0 || k.whole >= sum(k.counts):
		return true
	case len(k.sizes) == 1 || k.whole < k.counts[0]:
		return false
	case len(k.sizes) == 2 && k.counts[1] == 1:
		return k.rests > 0
	}
	if !c.affords(len(k.domains) * len(k.sizes)) {
		c.exhausted = true
		return false
	}
	return k.all(k.pack(k.domains, func(d *topology.Domain) int { return k.room[d] }))
}
