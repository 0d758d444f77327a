package coscheduling

import (
	"cmp"
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// nodeToll is about what it costs to make room on a node: the highest priority of those that leave, and what they lose.
type nodeToll struct {
	priority int64
	loss     int64
	// seats is how many of the largest members there is room for then.
	seats int
	// barren says that nobody can make room there.
	barren bool
}

func (t nodeToll) compare(other nodeToll) int {
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.each(), other.each()))
}

// each is what is lost for each member that there is room for then.
func (t nodeToll) each() int64 { return t.loss / int64(max(1, t.seats)) }

// nobodyLeaves is the priority where there is room, and notEnough that of what is not enough whoever leaves, as far as sums tell.
const nobodyLeaves, notEnough = math.MinInt64, math.MaxInt64

// largest is the role whose members ask for the most GPUs.
func (q *plea) largest() (role int) {
	for i := range q.seats {
		if q.seats[i].demand.Whole > q.seats[role].demand.Whole {
			role = i
		}
	}
	return role
}

// tollOf has those leave that cost the least, until there are as many GPUs as the members of a role ask for that the node takes when it is empty.
func (q *plea) tollOf(node, role int) nodeToll {
	size := q.seats[role].demand.Whole
	toll := nodeToll{priority: nobodyLeaves, seats: min(q.kinds[role].count, q.then[role][node])}
	if toll.seats == 0 {
		toll.priority = notEnough
		return toll
	}
	missing := size*int64(toll.seats) - q.tables.weights.unused[q.numbers[node]]
	if missing <= 0 && size > 0 {
		return toll
	}
	leaving, freed := q.leaving(node)
	missing -= freed
	for i, o := range leaving {
		if missing <= 0 && (size > 0 || i > 0) { // of those without GPUs it is one that leaves
			break
		}
		missing -= o.gpus
		toll.priority, toll.loss = max(toll.priority, o.rank), toll.loss+o.loss
	}
	if size > 0 && missing > 0 {
		toll.seats -= int((missing + size - 1) / size)
		if toll.seats <= 0 {
			toll.priority = notEnough
		}
	}
	return toll
}

// tolls are those of the nodes of a list, as of when each changed last: what there is to lose grows alike on all that a search goes through.
type tolls struct {
	nodes []fwk.NodeInfo
	at    []int64
	of    []nodeToll
}

// among begins anew where it is another list.
func (t *tolls) among(nodes []fwk.NodeInfo) {
	if cycle.SameNodes(t.nodes, nodes) && len(t.at) == len(nodes) {
		return
	}
	*t = tolls{nodes: nodes, at: make([]int64, len(nodes)), of: make([]nodeToll, len(nodes))}
	for node := range t.at {
		t.at[node] = -1 // which no node has
	}
}

// on is the toll of a node of a plea's site.
func (t *tolls) on(q *plea, node, role int) nodeToll {
	number := q.numbers[node]
	if generation := q.infos[node].GetGeneration(); t.at[number] != generation {
		t.at[number], t.of[number] = generation, q.tollOf(node, role)
	}
	return t.of[number]
}

// candidate is a pod that may leave, for all that its priority and quotas say.
type candidate struct {
	rank, loss, gpus int64
}

// add puts one that may leave behind those that cost no more.
func (w *weights) add(one candidate) {
	at := len(w.some)
	w.some = append(w.some, one)
	for ; at > 0 && (w.some[at-1].rank > one.rank || w.some[at-1].rank == one.rank && w.some[at-1].loss > one.loss); at-- {
		w.some[at] = w.some[at-1]
	}
	w.some[at] = one
}

// leaving are those on a node that may leave, the cheapest first, and the GPUs of those that leave already. The list counts until the next call.
func (q *plea) leaving(node int) (some []candidate, freed int64) {
	w, guarantees := &q.tables.weights, q.quotas.Any()
	w.some = w.some[:0]
	on := w.on[q.numbers[node]]
	for i := range on {
		o := &on[i]
		if o.ends {
			if isLeaving(o.pod, q.census.now) {
				freed += o.gpus
			}
			continue
		}
		standing := gpuquota.Neutral
		if guarantees && o.gpus > 0 {
			standing = q.census.standing(o.pod)
		}
		if o.priority < q.census.below || standing == gpuquota.Yields {
			w.add(candidate{lowestIf(standing == gpuquota.Yields, o.priority), lossSince(o.milli, o.since, q.census.now), o.gpus})
		}
	}
	return w.some, freed
}
