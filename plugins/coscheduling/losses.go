package coscheduling

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

// podLosses cache what the pods of each node would lose, so that the approximate cost of making room on a node of a large pool is known without a
// look at every pod. A changed node is counted again by the next attempt.
type podLosses struct {
	nodes []fwk.NodeInfo
	// at are the node generations that were weighed, and on their pods.
	at []int64
	on [][]podLoss
	// unused are the unrequested GPUs of each node, below 0 if pods request more than there are.
	unused []int64
	// nodeNumbers are the numbers of the nodes.
	nodeNumbers map[string]int
	// victims are the evictable pods of the node that was looked at last.
	victims []victimCost
}

// podLoss is a pod, as far as it matters for the cost of its eviction.
type podLoss struct {
	pod *corev1.Pod
	// isTerminating says that it is terminating.
	isTerminating bool
	// milli is its loss each second, since a time.
	milli    int64
	since    time.Time
	gpus     int64
	priority int32
}

// refreshLosses updates the cache to the nodes, as long as steps last. It returns false if some nodes are left, with which the next attempt
// continues.
func (w *podLosses) refreshLosses(nodes []fwk.NodeInfo, left *int) bool {
	if !cycle.SameNodes(w.nodes, nodes) {
		w.replaceNodes(nodes)
	}
	for node, info := range nodes {
		if w.at[node] == info.GetGeneration() {
			continue
		}
		if *left -= weighSteps * (1 + len(info.GetPods())); *left < 0 {
			return false
		}
		offered, taken := cycle.AmountOf(info, names.ResourceGPU)
		w.at[node], w.on[node], w.unused[node] = info.GetGeneration(), make([]podLoss, len(info.GetPods())), offered-taken
		for i, on := range info.GetPods() {
			pod := on.GetPod()
			milli, since := lossRate(pod)
			w.on[node][i] = podLoss{pod: pod, isTerminating: pod.DeletionTimestamp != nil, milli: milli, since: since, gpus: gpuquota.WholeGPUs(pod), priority: corev1helpers.PodPriority(pod)}
		}
	}
	return true
}

// replaceNodes switches to another list of nodes, and keeps the entries of nodes that were in the last one.
func (w *podLosses) replaceNodes(nodes []fwk.NodeInfo) {
	next := podLosses{nodes: nodes, at: make([]int64, len(nodes)), on: make([][]podLoss, len(nodes)), unused: make([]int64, len(nodes)), nodeNumbers: make(map[string]int, len(nodes))}
	for node, info := range nodes {
		name := info.Node().Name
		next.nodeNumbers[name], next.at[node] = node, -1 // which no node has
		if before, known := w.nodeNumbers[name]; known {
			next.at[node], next.on[node], next.unused[node] = w.at[before], w.on[before], w.unused[before]
		}
	}
	*w = next
}

// lossesOn returns the pods of a node, nil if the node has changed since they were weighed.
func (w *podLosses) lossesOn(nodes []fwk.NodeInfo, node int) []podLoss {
	if !cycle.SameNodes(w.nodes, nodes) || w.at[node] != nodes[node].GetGeneration() {
		return nil
	}
	return w.on[node]
}

// victimCost is a pod that may be evicted by its priority and quotas.
type victimCost struct {
	rank, loss, gpus int64
}

// insertVictim inserts a candidate behind those that cost no more.
func (w *podLosses) insertVictim(one victimCost) {
	at := len(w.victims)
	w.victims = append(w.victims, one)
	for ; at > 0 && (w.victims[at-1].rank > one.rank || w.victims[at-1].rank == one.rank && w.victims[at-1].loss > one.loss); at-- {
		w.victims[at] = w.victims[at-1]
	}
	w.victims[at] = one
}

// lossOf returns the work that is lost with a pod: thousandths of GPUs times seconds since its last checkpoint, or since its start. A pod
// without GPUs loses as much as a thousandth of one.
func lossOf(pod *corev1.Pod, now time.Time) int64 {
	milli, since := lossRate(pod)
	return lossSince(milli, since, now)
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

func lossSince(milli int64, since, now time.Time) int64 {
	return milli * min(max(0, int64(now.Sub(since)/time.Second)), maxLossTime)
}
