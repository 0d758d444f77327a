package plugins

import (
	"cmp"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	listersv1 "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulernames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// judgesNodes are the plugins whose verdict on a node depends on that node, what is on it, and the pod: what happens on another node never
// changes it.
var judgesNodes = sets.New(
	gpufilter.Name, schedulernames.NodeAffinity, schedulernames.NodeDeclaredFeatures, schedulernames.NodeName, schedulernames.NodePorts, schedulernames.NodeResourcesFit,
	schedulernames.NodeUnschedulable, schedulernames.TaintToleration,
)

// confined knows of the pods that wait which of them plugins of judgesNodes alone have rejected. An event on a node that such a pod could
// not even go to if it were empty is no news to it, and kube-scheduler's queue, which is locked while it asks each plugin about each pod
// that waits, need not: with 20,000 of them an event would take 0.13 s, and takes 3 ms so (BenchmarkReach). No other pod is heard of meanwhile.
type confined struct {
	nodes listersv1.NodeLister
	mu    sync.RWMutex
	// gpus is how many whole GPUs each of these pods asks for.
	gpus map[types.UID]int64
}

// confinedOf follows the queue of a scheduler.
func confinedOf(sched *scheduler.Scheduler) *confined {
	c := &confined{gpus: map[types.UID]int64{}}
	for _, profile := range sched.Profiles {
		c.nodes = profile.SharedInformerFactory().Core().V1().Nodes().Lister() // of all profiles the same
	}
	return c
}

// recordRejection records which plugins rejected a pod. What keeps a PodGroup of Kubernetes waiting concerns all of it.
func (c *confined) recordRejection(info *framework.QueuedPodInfo) {
	if info.Pod.Spec.SchedulingGroup != nil || info.UnschedulablePlugins.Len() == 0 || info.PendingPlugins.Len() > 0 || !judgesNodes.IsSuperset(info.UnschedulablePlugins) {
		c.forgetPod(info.Pod.UID)
		return
	}
	demand, _ := gpu.DemandOf(info.Pod) // of a malformed one that is more than any node has
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gpus[info.Pod.UID] = demand.Whole
}

func (c *confined) forgetPod(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gpus, pod)
}

// reachedBy has an event go only to the pods that check lets through, nil for all, and that are not confined to other nodes than its own.
func (c *confined) reachedBy(event fwk.ClusterEvent, before, after any, check queue.PreEnqueueCheck) queue.PreEnqueueCheck {
	node := c.nodeOf(event, before, after)
	if node == nil {
		return check
	}
	offered := node.Status.Allocatable[names.ResourceGPU]
	gpus := offered.Value()
	return func(pod *corev1.Pod) bool {
		return (check == nil || check(pod)) && !c.isKeptOff(pod, node, gpus)
	}
}

// isKeptOff reports whether a pod is confined, and could not go to a node with so many GPUs if that were empty.
func (c *confined) isKeptOff(pod *corev1.Pod, node *corev1.Node, gpus int64) bool {
	c.mu.RLock()
	asked, ok := c.gpus[pod.UID]
	c.mu.RUnlock()
	if !ok {
		return false
	}
	if asked > gpus {
		return true
	}
	for key, value := range pod.Spec.NodeSelector {
		if has, ok := node.Labels[key]; !ok || has != value {
			return true
		}
	}
	return false
}

// nodeOf is the one node where an event happens, as it is by now; nil for an event that may concern others, or a node that is not known.
func (c *confined) nodeOf(event fwk.ClusterEvent, before, after any) *corev1.Node {
	switch event.Resource {
	case fwk.Node:
		if node, ok := after.(*corev1.Node); ok {
			return node
		}
	case fwk.AssignedPod:
		gone, ok := before.(*corev1.Pod)
		if !ok || event.ActionType != fwk.Delete || c.nodes == nil {
			return nil
		}
		if on, to := gone.Spec.NodeName, gone.Status.NominatedNodeName; on != "" && to != "" && on != to {
			return nil // a nomination to another node ends with it
		}
		if node, err := c.nodes.Get(cmp.Or(gone.Spec.NodeName, gone.Status.NominatedNodeName)); err == nil {
			return node
		}
	}
	return nil
}
