package plugins

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// retryOnNodeRelease requeues the pods that wait for nodes when a reservation of these ends.
func retryOnNodeRelease(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.Reservations() == nil {
				continue
			}
			nodes, first := profile.SharedInformerFactory().Core().V1().Nodes().Lister(), gangRepresentative(sched)
			filter.Reservations().OnRelease(func(windows []reservation.Window, now time.Time) {
				requeueReleased(sched.SchedulingQueue, nodesInWindows(nodes, windows), first, windows, now)
			})
			return // all profiles have the same
		}
	}
}

// gangRepresentative returns whether a pod is the representative of its gang. A pod without a gang is.
func gangRepresentative(sched *scheduler.Scheduler) func(*corev1.Pod) bool {
	gangs := map[string]*coscheduling.Plugin{}
	for name, profile := range sched.Profiles {
		_, gangs[name] = preemptionsOf(profile)
	}
	return func(pod *corev1.Pod) bool {
		of := gangs[pod.Spec.SchedulerName]
		return of == nil || of.IsRepresentative(pod)
	}
}

// maxNodeEvents is up to how many nodes are reported one by one: for each, all waiting candidates are checked while the queue is locked. With 5,000
// pods that takes 16 ms a node (BenchmarkRelease).
const maxNodeEvents = 16

var (
	nodeAdded    = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	nodesOpened  = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "NodesReleased"}
	releaseQueue = klog.Background().WithName("release")
)

// requeueReleased requeues the pods that the nodes of some windows may suit now.
func requeueReleased(waiting queue.SchedulingQueue, nodes []*corev1.Node, first func(*corev1.Pod) bool, windows []reservation.Window, now time.Time) {
	requeueForNodes(waiting, nodes, first, func(pod *corev1.Pod) func(*corev1.Node) bool {
		if !reservation.HasKeptOut(windows, pod, now) {
			return nil
		}
		return func(*corev1.Node) bool { return true }
	})
}

// nodeMatcher returns which nodes a pod may have room on after a change, nil for none.
type nodeMatcher func(*corev1.Pod) func(*corev1.Node) bool

// requeueForNodes requeues the pods that some nodes may suit now: among the matching pods, the representative of each gang. For these pods the
// node is as good as new, so their plugins get an event for an added node, and activate the pods that it suits. Many nodes are reported as one
// event that asks no plugin: it activates the pods of their pools and types, at the cost of an attempt also for pods that wait for more than
// that.
func requeueForNodes(waiting queue.SchedulingQueue, nodes []*corev1.Node, first func(*corev1.Pod) bool, who nodeMatcher) {
	who = memoizeMatcher(first, who)
	if len(nodes) > maxNodeEvents {
		suits := matchesAnyNode(nodes)
		waiting.MoveAllToActiveOrBackoffQueue(releaseQueue, nodesOpened, nil, nil, func(pod *corev1.Pod) bool {
			if !suits(pod) {
				return false
			}
			on := who(pod)
			return on != nil && slices.ContainsFunc(nodes, on)
		})
		return
	}
	for _, node := range nodes {
		waiting.MoveAllToActiveOrBackoffQueue(releaseQueue, nodeAdded, nil, node, func(pod *corev1.Pod) bool {
			on := who(pod)
			return on != nil && on(node)
		})
	}
}

// memoizeMatcher caches for each pod whether it is a representative and matches.
func memoizeMatcher(first func(*corev1.Pod) bool, who nodeMatcher) nodeMatcher {
	known := map[types.UID]func(*corev1.Node) bool{}
	return func(pod *corev1.Pod) func(*corev1.Node) bool {
		on, asked := known[pod.UID]
		if !asked {
			if on = who(pod); on != nil && !first(pod) {
				on = nil
			}
			known[pod.UID] = on
		}
		return on
	}
}

// matchesAnyNode returns whether one of some nodes is of a pod's pool and type. For a gang one pod is tried for all, whose pools and types may
// differ.
func matchesAnyNode(nodes []*corev1.Node) func(*corev1.Pod) bool {
	kinds := distinctNodes(nodes)
	return func(pod *corev1.Pod) bool {
		accepted, err := gpu.PodTypes(pod)
		if err != nil {
			return false // no node fixes a malformed request
		}
		if gang.MayBeMember(pod) {
			return true
		}
		pool := gpu.PodPool(pod)
		return slices.ContainsFunc(kinds, func(node *corev1.Node) bool {
			return (pool == "" || pool == gpu.PoolOf(node)) && accepted.MatchesNode(node)
		})
	}
}

// distinctNodes returns one node of each pool and type.
func distinctNodes(nodes []*corev1.Node) (kinds []*corev1.Node) {
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

// nodesByName returns the existing nodes of some names.
func nodesByName(nodes listersv1.NodeLister, of []string) (out []*corev1.Node) {
	for _, name := range of {
		if node, err := nodes.Get(name); err == nil {
			out = append(out, node)
		}
	}
	return out
}

// nodesInWindows returns the nodes of some windows.
func nodesInWindows(nodes listersv1.NodeLister, windows []reservation.Window) (out []*corev1.Node) {
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return nil // it is in memory
	}
	for _, node := range all {
		for i := range windows {
			if windows[i].KeepsNode(node) {
				out = append(out, node)
				break
			}
		}
	}
	return out
}
