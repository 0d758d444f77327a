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

// field is a set of nodes on part of which a gang is placed: the nodes of one domain if one domain must hold it, else all.
type field struct {
	key string
	// nodes are sorted by cost, the cheapest first. cost is the approximate total cost.
	nodes []int
	toll  nodeToll
}

// barrens are nodes where no eviction can make room. They are known by name, and by number in the last list.
type barrens struct {
	names sets.Set[string]
	nodes []fwk.NodeInfo
	at    []bool
}

// among maps them to the numbers of a node list.
func (b *barrens) among(nodes []fwk.NodeInfo) {
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

// add records a node by its number in that list.
func (b *barrens) add(node int) {
	b.at[node] = true
	b.names.Insert(b.nodes[node].Node().Name)
}

// fields returns the areas to search, the cheapest first.
func (q *plea) fields(h *hunt) (fields []field) {
	role := q.largest()
	members, tolls := q.kinds[role].count, make([]nodeToll, len(q.infos))
	q.tolls = tolls
	h.barren.among(q.bearing.nodes)
	h.tolls.among(q.bearing.nodes)
	for node := range q.infos {
		if h.barren.at[q.numbers[node]] {
			tolls[node] = nodeToll{priority: notEnough, barren: true}
			continue
		}
		tolls[node] = h.tolls.on(q, node, role)
	}
	domains := []*topology.Domain{q.tree.Root}
	if q.required && q.segments == nil {
		domains = q.tree.At(q.level)
		if len(q.standing) > 0 {
			domains = []*topology.Domain{q.tree.Of(q.standing[0], q.level)}
		}
	}
	for _, domain := range domains {
		f := q.fieldOf(domain, tolls, members)
		if !h.looked.Has(f.key) && f.toll.priority != notEnough {
			fields = append(fields, f)
		}
	}
	if q.required && q.segments != nil && len(fields) > 0 {
		fields[0].nodes = q.bySegment(tolls)
	}
	slices.SortStableFunc(fields, func(a, b field) int { return a.toll.compare(b.toll) })
	return fields
}

// fieldOf sorts the useful nodes of a domain by cost, and adds up the cheapest until they hold so many members.
func (q *plea) fieldOf(d *topology.Domain, tolls []nodeToll, members int) field {
	nodes := make([]int, 0, len(d.Nodes))
	for _, node := range d.Nodes {
		if !tolls[node].barren {
			nodes = append(nodes, node)
		}
	}
	nodes = cheapestFirst(nodes, tolls)
	f := field{key: q.infos[d.Nodes[0]].Node().Name + "/" + strconv.Itoa(d.Level), nodes: nodes, toll: nodeToll{priority: nobodyLeaves}}
	for _, node := range nodes {
		if f.toll.seats >= members || tolls[node].priority == notEnough {
			break
		}
		f.toll.priority, f.toll.loss, f.toll.seats = max(f.toll.priority, tolls[node].priority), f.toll.loss+tolls[node].loss, f.toll.seats+tolls[node].seats
	}
	if f.toll.seats < members {
		f.toll.priority = notEnough
	}
	if len(q.kinds) == 1 {
		f.nodes = slices.DeleteFunc(nodes, func(node int) bool { return tolls[node].priority == notEnough })
	}
	f.toll.seats = 1 // what counts is what all of it costs
	return f
}

// cheapestFirst sorts nodes by the cost of making room on them. The sort is stable.
func cheapestFirst(nodes []int, tolls []nodeToll) []int {
	type rank struct {
		priority, each int64
		at             int
	}
	ranks := make([]rank, len(nodes))
	for at, node := range nodes {
		ranks[at] = rank{tolls[node].priority, tolls[node].each(), at}
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

// bySegment lists the nodes domain by domain, beginning with the domain where a segment costs the least.
func (q *plea) bySegment(tolls []nodeToll) (nodes []int) {
	var fields []field
	for _, domain := range q.tree.At(q.level) {
		fields = append(fields, q.fieldOf(domain, tolls, max(1, q.segment)))
	}
	slices.SortStableFunc(fields, func(a, b field) int { return a.toll.compare(b.toll) })
	for i := range fields {
		nodes = append(nodes, fields[i].nodes...)
	}
	return nodes
}

// fieldsBut returns the areas of all results but one.
func fieldsBut(all []*found, one *found) (out []field) {
	for _, other := range all {
		if other != one {
			out = append(out, *other.field)
		}
	}
	return out
}

// first returns the first nodes that hold so many members, and enough further nodes for a minimum number of pods. It also returns how
// many pods they have.
func (q *plea) first(nodes []int, members int) (area []int, pods int) {
	seats := 0
	for i, node := range nodes {
		if seats >= members && pods >= somePods {
			return nodes[:i], pods
		}
		seats, pods = seats+max(0, q.tolls[node].seats), pods+len(q.infos[node].GetPods())
	}
	return nodes, pods
}
