package coscheduling

import (
	"cmp"
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// nodeCost is the approximate cost of making room on a node: the highest priority of the victims, and their loss.
type nodeCost struct {
	priority int64
	loss     int64
	// slots is how many of the largest members fit then.
	slots int
	// isUnhelpful says that no eviction can make room there.
	isUnhelpful bool
}

func (t nodeCost) compareCost(other nodeCost) int {
	return cmp.Or(cmp.Compare(t.priority, other.priority), cmp.Compare(t.lossPerSlot(), other.lossPerSlot()))
}

// lossPerSlot returns the loss for each member that fits then.
func (t nodeCost) lossPerSlot() int64 { return t.loss / int64(max(1, t.slots)) }

// priorityNoVictims is the priority of a node that has room already. priorityNoRoom is that of a node whose room is insufficient whichever pods
// leave, as far as sums show.
const priorityNoVictims, priorityNoRoom = math.MinInt64, math.MaxInt64

// largestRole returns the role whose members request the most GPUs.
func (q *preemptionAttempt) largestRole() (role int) {
	for i := range q.Slots {
		if q.Slots[i].Demand.Whole > q.Slots[role].Demand.Whole {
			role = i
		}
	}
	return role
}

// estimateCost removes the cheapest pods, until there are as many GPUs as needed for the members of a role that the empty node takes.
func (q *preemptionAttempt) estimateCost(node, role int) nodeCost {
	size := q.Slots[role].Demand.Whole
	toll := nodeCost{priority: priorityNoVictims, slots: min(q.kinds[role].Count, q.EmptySlots[role][node])}
	if toll.slots == 0 {
		toll.priority = priorityNoRoom
		return toll
	}
	missing := size*int64(toll.slots) - q.tables.Weights.Unused[q.Numbers[node]]
	if missing <= 0 && size > 0 {
		return toll
	}
	leaving, freed := q.evictablePods(node)
	missing -= freed
	for i, o := range leaving {
		if missing <= 0 && (size > 0 || i > 0) { // without GPUs one victim is assumed
			break
		}
		missing -= o.GPUs
		toll.priority, toll.loss = max(toll.priority, o.Rank), toll.loss+o.Loss
	}
	if size > 0 && missing > 0 {
		toll.slots -= int((missing + size - 1) / size)
		if toll.slots <= 0 {
			toll.priority = priorityNoRoom
		}
	}
	return toll
}

// nodeCosts are the costs of the nodes of a list, as of each node's last change: what is lost grows at the same rate on all nodes of a search.
type nodeCosts struct {
	nodes []fwk.NodeInfo
	at    []int64
	costs []nodeCost
}

// indexNodes resets the costs if the list is another one.
func (t *nodeCosts) indexNodes(nodes []fwk.NodeInfo) {
	if cycle.SameNodes(t.nodes, nodes) && len(t.at) == len(nodes) {
		return
	}
	*t = nodeCosts{nodes: nodes, at: make([]int64, len(nodes)), costs: make([]nodeCost, len(nodes))}
	for node := range t.at {
		t.at[node] = -1 // which no node has
	}
}

// costOn returns the cost of a node of an attempt.
func (t *nodeCosts) costOn(q *preemptionAttempt, node, role int) nodeCost {
	number := q.Numbers[node]
	if generation := q.Infos[node].GetGeneration(); t.at[number] != generation {
		t.at[number], t.costs[number] = generation, q.estimateCost(node, role)
	}
	return t.costs[number]
}

// evictablePods returns the evictable pods on a node, the cheapest first, and the GPUs of terminating pods. The list is valid until the next call.
func (q *preemptionAttempt) evictablePods(node int) (some []placement.VictimCost, freed int64) {
	w, guarantees := &q.tables.Weights, q.quotas.HasAny()
	w.Victims = w.Victims[:0]
	on := w.On[q.Numbers[node]]
	for i := range on {
		o := &on[i]
		if o.IsTerminating {
			if isLeaving(o.Pod, q.collector.now) {
				freed += o.GPUs
			}
			continue
		}
		standing := gpuquota.Neutral
		if guarantees && o.GPUs > 0 {
			standing = q.collector.quotaStanding(o.Pod)
		}
		if o.Priority < q.collector.below || standing == gpuquota.Yields {
			w.InsertVictim(placement.VictimCost{
				Rank: victimRank(standing == gpuquota.Yields, o.Priority), Loss: placement.LossSince(o.Milli, o.Since, q.collector.now), GPUs: o.GPUs,
			})
		}
	}
	return w.Victims, freed
}
