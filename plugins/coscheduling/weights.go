package coscheduling

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// weights remember what the pods of each node lose when they leave, so that what it costs about to make room on a node of a large pool is known
// without a look at each pod of all nodes. Those of a node are counted anew when it has changed, by whichever attempt comes first.
type weights struct {
	nodes []fwk.NodeInfo
	// at are the generations of the nodes whose pods were weighed, and on these.
	at []int64
	on [][]weighed
	// unused are the GPUs of each node that no pod on it asks for, below 0 where they ask for more than there are.
	unused []int64
	// of are the numbers of the nodes.
	of map[string]int
	// some is who may leave the node that was looked at last.
	some []candidate
}

// weighed is a pod, as far as it counts for what it costs to have it leave.
type weighed struct {
	pod *corev1.Pod
	// ends says that it is being deleted.
	ends bool
	// milli is what it loses a second, since when.
	milli    int64
	since    time.Time
	gpus     int64
	priority int32
}

// weigh brings the weights in step with the nodes, as long as steps last. It reports false where some are left, which the next
// attempt goes on with.
func (w *weights) weigh(nodes []fwk.NodeInfo, left *int) bool {
	if !cycle.SameNodes(w.nodes, nodes) {
		w.follow(nodes)
	}
	for node, info := range nodes {
		if w.at[node] == info.GetGeneration() {
			continue
		}
		if *left -= weighSteps * (1 + len(info.GetPods())); *left < 0 {
			return false
		}
		offered, taken := cycle.AmountOf(info, names.ResourceGPU)
		w.at[node], w.on[node], w.unused[node] = info.GetGeneration(), make([]weighed, len(info.GetPods())), offered-taken
		for i, on := range info.GetPods() {
			pod := on.GetPod()
			milli, since := lossRate(pod)
			w.on[node][i] = weighed{pod: pod, ends: pod.DeletionTimestamp != nil, milli: milli, since: since, gpus: gpuquota.WholeGPUs(pod), priority: corev1helpers.PodPriority(pod)}
		}
	}
	return true
}

// follow takes another list of nodes, of which it knows those that were in the last one.
func (w *weights) follow(nodes []fwk.NodeInfo) {
	next := weights{nodes: nodes, at: make([]int64, len(nodes)), on: make([][]weighed, len(nodes)), unused: make([]int64, len(nodes)), of: make(map[string]int, len(nodes))}
	for node, info := range nodes {
		name := info.Node().Name
		next.of[name], next.at[node] = node, -1 // which no node has
		if before, known := w.of[name]; known {
			next.at[node], next.on[node], next.unused[node] = w.at[before], w.on[before], w.unused[before]
		}
	}
	*w = next
}

// nodeToll is about what it costs to make room on a node: the highest priority of those that leave, and what they lose.
type nodeToll struct {
	node     int
	priority int64
	loss     int64
	// seats is how many of the largest members there is room for then.
	seats int
	// barren says that nobody can make room there.
	barren bool
}

func (t nodeToll) compare(other nodeToll) int {
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.loss/int64(max(1, t.seats)), other.loss/int64(max(1, other.seats))))
}

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
	toll := nodeToll{node: node, priority: nobodyLeaves, seats: min(q.kinds[role].count, q.then[role][node])}
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
