package plugins

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// followReleases has the pods tried again that wait for nodes which are kept from them no longer.
func followReleases(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.Reservations() == nil {
				continue
			}
			nodes := profile.SharedInformerFactory().Core().V1().Nodes().Lister()
			filter.Reservations().OnRelease(func(windows []reservation.Window, now time.Time) {
				release(sched.SchedulingQueue, released(nodes, windows), windows, now)
			})
			return // all profiles have the same
		}
	}
}

// manyNodes are as many as are told of one by one: for each, all pods that wait are looked at, and the queue is locked meanwhile.
// With 5,000 of them that takes 16 ms a node (BenchmarkRelease).
const manyNodes = 16

var (
	nodeAdded    = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	nodesOpened  = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "NodesReleased"}
	releaseQueue = klog.Background().WithName("release")
)

// release has the pods of a queue tried again that the nodes of some windows may suit now.
func release(waiting queue.SchedulingQueue, nodes []*corev1.Node, windows []reservation.Window, now time.Time) {
	tell(waiting, nodes, func(pod *corev1.Pod) bool { return reservation.KeptOut(windows, pod, now) })
}

// tell has the pods of a queue tried again that some nodes may suit now. To them such a node is a new one, so that is what their
// plugins are told: each wakes whom it suits. Many nodes are told of as one event, which asks no plugin: it wakes those of the pods
// that are meant, at the cost of an attempt also those who wait for more than the pool and the type of such a node.
func tell(waiting queue.SchedulingQueue, nodes []*corev1.Node, meant func(*corev1.Pod) bool) {
	if len(nodes) > manyNodes {
		suits := suited(nodes)
		waiting.MoveAllToActiveOrBackoffQueue(releaseQueue, nodesOpened, nil, nil, func(pod *corev1.Pod) bool { return meant(pod) && suits(pod) })
		return
	}
	for _, node := range nodes {
		waiting.MoveAllToActiveOrBackoffQueue(releaseQueue, nodeAdded, nil, node, nil)
	}
}

// suited tells of a pod whether one of some nodes is of its pool and type.
func suited(nodes []*corev1.Node) func(*corev1.Pod) bool {
	kinds := kindsOf(nodes)
	return func(pod *corev1.Pod) bool {
		types, err := gpu.PodTypes(pod)
		if err != nil {
			return false // no node mends a malformed request
		}
		pool := gpu.PodPool(pod)
		return slices.ContainsFunc(kinds, func(node *corev1.Node) bool {
			return (pool == "" || pool == gpu.PoolOf(node)) && types.Match(node)
		})
	}
}

// kindsOf are some of the nodes: one of each pool and type.
func kindsOf(nodes []*corev1.Node) (kinds []*corev1.Node) {
	seen := map[string]bool{}
	for _, node := range nodes {
		kind := gpu.PoolOf(node)
		for _, label := range names.GPUTypeLabels {
			kind = strings.Join([]string{kind, node.Labels[label]}, "\n")
		}
		if !seen[kind] {
			seen[kind] = true
			kinds = append(kinds, node)
		}
	}
	return kinds
}

// released are the nodes of some windows.
func released(nodes listersv1.NodeLister, windows []reservation.Window) (out []*corev1.Node) {
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return nil // it is in memory
	}
	for _, node := range all {
		for i := range windows {
			if windows[i].Keeps(node) {
				out = append(out, node)
				break
			}
		}
	}
	return out
}
