package coscheduling

import (
	"cmp"
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// nodeToll is the approximate cost of making room on a node: the highest priority of the victims, and their loss.
type nodeToll struct {
	priority int64
	loss     int64
	// seats is how many of the largest members fit then.
	seats int
	// barren says that no eviction can make room there.
	barren bool
}

func (t nodeToll) compare(other nodeToll) int {
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.each(), other.each()))
}

// each returns the loss for each member that fits then.
func (t nodeToll) each() int64 { return t.loss / int64(max(1, t.seats)) }

// nobodyLeaves is the priority of a node that has room already. priorityNoRoom is that of a node whose room is insufficient whichever pods
// leave, as far as sums show.
const nobodyLeaves, notEnough = math.MinInt64, math.MaxInt64

// largest returns the role whose members request the most GPUs.
func (q *plea) largest() (role int) {
	for i := range q.seats {
		if q.seats[i].demand.Whole > q.seats[role].demand.Whole {
			role = i
		}
	}
	return role
}

// tollOf removes the cheapest pods, until there are as many GPUs as needed for the members of a role that the empty node takes.
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
		if missing <= 0 && (size > 0 || i > 0) { // without GPUs one victim is assumed
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

// tolls are the costs of the nodes of a list, as of each node's last change: what is lost grows at the same rate on all nodes of a search.
type tolls struct {
	nodes []fwk.NodeInfo
	at    []int64
	of    []nodeToll
}

// among resets the costs if the list is another one.
func (t *tolls) among(nodes []fwk.NodeInfo) {
	if cycle.SameNodes(t.nodes, nodes) && len(t.at) == len(nodes) {
		return
	}
	*t = tolls{nodes: nodes, at: make([]int64, len(nodes)), of: make([]nodeToll, len(nodes))}
	for node := range t.at {
		t.at[node] = -1 // which no node has
	}
}

// on returns the cost of a node of an attempt.
func (t *tolls) on(q *plea, node, role int) nodeToll {
	number := q.numbers[node]
	if generation := q.infos[node].GetGeneration(); t.at[number] != generation {
		t.at[number], t.of[number] = generation, q.tollOf(node, role)
	}
	return t.of[number]
}

// candidate is a pod that may be evicted by its priority and quotas.
type candidate struct {
	rank, loss, gpus int64
}

// add inserts a candidate behind those that cost no more.
func (w *weights) add(one candidate) {
	at := len(w.some)
	w.some = append(w.some, one)
	for ; at > 0 && (w.some[at-1].rank > one.rank || w.some[at-1].rank == one.rank && w.some[at-1].loss > one.loss); at-- {
		w.some[at] = w.some[at-1]
	}
	w.some[at] = one
}

// leaving returns the evictable pods on a node, the cheapest first, and the GPUs of terminating pods. The list is valid until the next call.
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
