package coscheduling

import (
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

// weighedOn are the pods on a node of a list, nil where they have not been weighed since it changed.
func (w *weights) weighedOn(nodes []fwk.NodeInfo, node int) []weighed {
	if !cycle.SameNodes(w.nodes, nodes) || w.at[node] != nodes[node].GetGeneration() {
		return nil
	}
	return w.on[node]
}
