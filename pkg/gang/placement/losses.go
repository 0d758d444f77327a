package placement

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// weighSteps is how many steps of a search it takes to weigh a pod.
const weighSteps = 6

// PodLosses cache what the pods of each node would lose, so that the approximate cost of making room on a node of a large pool is known without a
// look at every pod. A changed node is counted again by the next attempt.
type PodLosses struct {
	nodes []fwk.NodeInfo
	// At are the node generations that were weighed, and on their pods.
	At []int64
	On [][]PodLoss
	// Unused are the unrequested GPUs of each node, below 0 if pods request more than there are.
	Unused []int64
	// nodeNumbers are the numbers of the nodes.
	nodeNumbers map[string]int
	// Victims are the evictable pods of the node that was looked at last.
	Victims []VictimCost
}

// PodLoss is a pod, as far as it matters for the cost of its eviction.
type PodLoss struct {
	Pod *corev1.Pod
	// IsTerminating says that it is terminating.
	IsTerminating bool
	// Milli is its loss each second, since a time.
	Milli    int64
	Since    time.Time
	GPUs     int64
	Priority int32
}

// RefreshLosses updates the cache to the nodes, as long as steps last. It returns false if some nodes are left, with which the next attempt
// continues.
func (w *PodLosses) RefreshLosses(nodes []fwk.NodeInfo, left *int) bool {
	if !cycle.SameNodes(w.nodes, nodes) {
		w.replaceNodes(nodes)
	}
	for node, info := range nodes {
		if w.At[node] == info.GetGeneration() {
			continue
		}
		if *left -= weighSteps * (1 + len(info.GetPods())); *left < 0 {
			return false
		}
		offered, taken := cycle.AmountOf(info, names.ResourceGPU)
		w.At[node], w.On[node], w.Unused[node] = info.GetGeneration(), make([]PodLoss, len(info.GetPods())), offered-taken
		for i, on := range info.GetPods() {
			pod := on.GetPod()
			milli, since := lossRate(pod)
			w.On[node][i] = PodLoss{Pod: pod, IsTerminating: pod.DeletionTimestamp != nil, Milli: milli, Since: since, GPUs: gpuquota.WholeGPUs(pod), Priority: corev1helpers.PodPriority(pod)}
		}
	}
	return true
}

// replaceNodes switches to another list of nodes, and keeps the entries of nodes that were in the last one.
func (w *PodLosses) replaceNodes(nodes []fwk.NodeInfo) {
	next := PodLosses{nodes: nodes, At: make([]int64, len(nodes)), On: make([][]PodLoss, len(nodes)), Unused: make([]int64, len(nodes)), nodeNumbers: make(map[string]int, len(nodes))}
	for node, info := range nodes {
		name := info.Node().Name
		next.nodeNumbers[name], next.At[node] = node, -1 // which no node has
		if before, known := w.nodeNumbers[name]; known {
			next.At[node], next.On[node], next.Unused[node] = w.At[before], w.On[before], w.Unused[before]
		}
	}
	*w = next
}

// LossesOn returns the pods of a node, nil if the node has changed since they were weighed.
func (w *PodLosses) LossesOn(nodes []fwk.NodeInfo, node int) []PodLoss {
	if !cycle.SameNodes(w.nodes, nodes) || w.At[node] != nodes[node].GetGeneration() {
		return nil
	}
	return w.On[node]
}

// VictimCost is a pod that may be evicted by its priority and quotas.
type VictimCost struct {
	Rank, Loss, GPUs int64
}

// InsertVictim inserts a candidate behind those that cost no more.
func (w *PodLosses) InsertVictim(one VictimCost) {
	at := len(w.Victims)
	w.Victims = append(w.Victims, one)
	for ; at > 0 && (w.Victims[at-1].Rank > one.Rank || w.Victims[at-1].Rank == one.Rank && w.Victims[at-1].Loss > one.Loss); at-- {
		w.Victims[at] = w.Victims[at-1]
	}
	w.Victims[at] = one
}

// LossOf returns the work that is lost with a pod: thousandths of GPUs times seconds since its last checkpoint, or since its start. A pod
// without GPUs loses as much as a thousandth of one.
func LossOf(pod *corev1.Pod, now time.Time) int64 {
	milli, since := lossRate(pod)
	return LossSince(milli, since, now)
}

// lossRate returns what a pod loses each second, and since when; the zero time for a pod that has not started.
func lossRate(pod *corev1.Pod) (milli int64, since time.Time) {
	if pod.Status.StartTime == nil {
		return 0, time.Time{}
	}
	since = pod.Status.StartTime.Time
	if at := pod.Annotations[names.AnnotationCheckpointedAt]; at != "" { // parsing "" as a time takes as long as all else here
		if saved, err := time.Parse(time.RFC3339, at); err == nil && saved.After(since) {
			since = saved
		}
	}
	milli = 1
	if request, err := gpu.RequestOf(pod); err == nil { // the rest of a demand only selects GPUs
		milli = max(milli, (&gpu.Demand{Request: request}).MilliGPUs(0))
	}
	return min(milli, maxLossRate), since
}

// maxLossRate and maxLossTime bound the loss of one pod, so that the losses of a cluster can be added up, whatever a clock or a user says.
const maxLossRate, maxLossTime = 1 << 20, 1 << 30

// LossSince returns what is lost by now at a rate.
func LossSince(milli int64, since, now time.Time) int64 {
	return milli * min(max(0, int64(now.Sub(since)/time.Second)), maxLossTime)
}
