package coscheduling

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// searchArea is a set of nodes on part of which a gang is placed: the nodes of one domain if one domain must hold it, else all.
type searchArea struct {
	key string
	// nodes are sorted by cost, the cheapest first. cost is the approximate total cost.
	nodes []int
	cost  nodeCost
}

// unhelpfulNodes are nodes where no eviction can make room. They are known by name, and by number in the last list.
type unhelpfulNodes struct {
	names sets.Set[string]
	nodes []fwk.NodeInfo
	at    []bool
}

// indexNodes maps them to the numbers of a node list.
func (b *unhelpfulNodes) indexNodes(nodes []fwk.NodeInfo) {
	if cycle.SameNodes(b.nodes, nodes) && len(b.at) == len(nodes) {
		return
	}
	b.nodes, b.at = nodes, make([]bool, len(nodes))
	if len(b.names) == 0 {
		return
	}
	for node, info := range nodes {
		b.at[node] = b.names.Has(info.Node().Name)
	}
}

// addNode records a node by its number in that list.
func (b *unhelpfulNodes) addNode(node int) {
	b.at[node] = true
	b.names.Insert(b.nodes[node].Node().Name)
}

// searchAreas returns the areas to search, the cheapest first.
func (q *preemptionAttempt) searchAreas(h *victimSearch) (fields []searchArea) {
	role := q.largestRole()
	members, tolls := q.kinds[role].Count, make([]nodeCost, len(q.Infos))
	q.costs = tolls
	h.unhelpful.indexNodes(q.Nodes)
	h.costs.indexNodes(q.Nodes)
	for node := range q.Infos {
		if h.unhelpful.at[q.Numbers[node]] {
			tolls[node] = nodeCost{priority: priorityNoRoom, isUnhelpful: true}
			continue
		}
		tolls[node] = h.costs.costOn(q, node, role)
	}
	domains := []*topology.Domain{q.Tree.Root}
	if q.Required && q.Segments == nil {
		domains = q.Tree.DomainsAt(q.Level)
		if len(q.standing) > 0 {
			domains = []*topology.Domain{q.Tree.NodeDomain(q.standing[0], q.Level)}
		}
	}
	for _, domain := range domains {
		f := q.newSearchArea(domain, tolls, members)
		if !h.searchedAreas.Has(f.key) && f.cost.priority != priorityNoRoom {
			fields = append(fields, f)
		}
	}
	if q.Required && q.Segments != nil && len(fields) > 0 {
		fields[0].nodes = q.nodesBySegment(tolls)
	}
	slices.SortStableFunc(fields, func(a, b searchArea) int { return a.cost.compareCost(b.cost) })
	return fields
}

// newSearchArea sorts the useful nodes of a domain by cost, and adds up the cheapest until they hold so many members.
func (q *preemptionAttempt) newSearchArea(d *topology.Domain, tolls []nodeCost, members int) searchArea {
	nodes := make([]int, 0, len(d.Nodes))
	for _, node := range d.Nodes {
		if !tolls[node].isUnhelpful {
			nodes = append(nodes, node)
		}
	}
	nodes = cheapestFirst(nodes, tolls)
	f := searchArea{key: q.Infos[d.Nodes[0]].Node().Name + "/" + strconv.Itoa(d.Level), nodes: nodes, cost: nodeCost{priority: priorityNoVictims}}
	for _, node := range nodes {
		if f.cost.slots >= members || tolls[node].priority == priorityNoRoom {
			break
		}
		f.cost.priority, f.cost.loss, f.cost.slots = max(f.cost.priority, tolls[node].priority), f.cost.loss+tolls[node].loss, f.cost.slots+tolls[node].slots
	}
	if f.cost.slots < members {
		f.cost.priority = priorityNoRoom
	}
	if len(q.kinds) == 1 {
		f.nodes = slices.DeleteFunc(nodes, func(node int) bool { return tolls[node].priority == priorityNoRoom })
	}
	f.cost.slots = 1 // what counts is what all of it costs
	return f
}

// cheapestFirst sorts nodes by the cost of making room on them. The sort is stable.
func cheapestFirst(nodes []int, tolls []nodeCost) []int {
	type rank struct {
		priority, each int64
		at             int
	}
	ranks := make([]rank, len(nodes))
	for at, node := range nodes {
		ranks[at] = rank{tolls[node].priority, tolls[node].lossPerSlot(), at}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.each, b.each), cmp.Compare(a.at, b.at))
	})
	sorted := make([]int, len(nodes))
	for i := range ranks {
		sorted[i] = nodes[ranks[i].at]
	}
	return sorted
}

// nodesBySegment lists the nodes domain by domain, beginning with the domain where a segment costs the least.
func (q *preemptionAttempt) nodesBySegment(tolls []nodeCost) (nodes []int) {
	var fields []searchArea
	for _, domain := range q.Tree.DomainsAt(q.Level) {
		fields = append(fields, q.newSearchArea(domain, tolls, max(1, q.Segment)))
	}
	slices.SortStableFunc(fields, func(a, b searchArea) int { return a.cost.compareCost(b.cost) })
	for i := range fields {
		nodes = append(nodes, fields[i].nodes...)
	}
	return nodes
}

// otherAreas returns the areas of all results but one.
func otherAreas(all []*searchResult, one *searchResult) (out []searchArea) {
	for _, other := range all {
		if other != one {
			out = append(out, *other.field)
		}
	}
	return out
}

// cheapestArea returns the first nodes that hold so many members, and enough further nodes for a minimum number of pods. It also returns how
// many pods they have.
func (q *preemptionAttempt) cheapestArea(nodes []int, members int) (area []int, pods int) {
	seats := 0
	for i, node := range nodes {
		if seats >= members && pods >= minAreaPods {
			return nodes[:i], pods
		}
		seats, pods = seats+max(0, q.costs[node].slots), pods+len(q.Infos[node].GetPods())
	}
	return nodes, pods
}
