package coscheduling

import (
	"cmp"
	"math"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

const (
	// fewUnits is how many that may leave are all weighed against each other.
	fewUnits = 2_000
	// someNodes is on how many nodes they are weighed at once otherwise, with so many more for each member that is to come.
	someNodes, nodesPerMember = 16, 4
)

// choices are the nodes to look for who leaves on, one after the other until some are found; nil are all. To weigh tens of thousands would
// take seconds, or be cut short with nobody found, for ever. So where these nodes are not to lie in one domain those come first that cost
// the least, as far as sums tell.
func (q *plea) choices() [][]int {
	members := 0
	for i := range q.kinds {
		members += q.kinds[i].count
	}
	if len(q.crowd.units) <= fewUnits || q.required || members > 1 && !q.isAny() {
		return [][]int{nil}
	}
	tolls := make([]nodeToll, 0, len(q.infos))
	for node := range q.infos {
		tolls = append(tolls, q.tollOf(node))
	}
	slices.SortStableFunc(tolls, func(a, b nodeToll) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.loss, b.loss))
	})
	nodes := make([]int, len(tolls))
	for i := range tolls {
		nodes[i] = tolls[i].node
	}
	size := someNodes + nodesPerMember*members
	if members > 1 {
		return [][]int{nodes[:min(len(nodes), size)], nil}
	}
	return slices.Collect(slices.Chunk(nodes, size))
}

// nodeToll is about what it costs to make room on a node: the highest priority of those that leave, and what they lose.
type nodeToll struct {
	node     int
	priority int64
	loss     int64
}

// tollOf has those leave that cost the least, until there are as many GPUs as the largest member asks for.
func (q *plea) tollOf(node int) nodeToll {
	missing := int64(0)
	for i := range q.seats {
		missing = max(missing, q.seats[i].demand.Whole)
	}
	offered, taken := cycle.AmountOf(q.infos[node], names.ResourceGPU)
	wants := missing > 0 // without that it is one of them that leaves
	if wants {
		missing -= offered - taken
	}
	var leaving []occupant
	for _, o := range q.crowd.on[node] {
		if o.unit < 0 {
			missing -= gpuquota.WholeGPUs(o.GetPod())
		} else {
			leaving = append(leaving, o)
		}
	}
	of := func(o occupant) *victims { return &q.crowd.units[o.unit] }
	slices.SortStableFunc(leaving, func(a, b occupant) int {
		return cmp.Or(cmp.Compare(of(a).priority, of(b).priority), cmp.Compare(of(a).loss, of(b).loss))
	})
	toll := nodeToll{node: node, priority: math.MinInt64}
	for i, o := range leaving {
		if missing <= 0 && (wants || i > 0) {
			break
		}
		missing -= gpuquota.WholeGPUs(o.GetPod())
		toll.priority, toll.loss = max(toll.priority, of(o).priority), toll.loss+of(o).loss
	}
	if wants && missing > 0 {
		toll.priority = math.MaxInt64 // it is not enough, as far as sums tell
	}
	return toll
}
